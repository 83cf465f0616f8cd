//! Login: from the greeting to a session.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::auth::{self, NONCE_BYTES, Plugin, Verifier};
use crate::backend::{Backend, Login};
use crate::command::ChangeUser;
use crate::compress::Algorithm;
use crate::constants::{capability, status};
use crate::error::{ProtocolError, SqlError, code};
use crate::handshake::{self, Answer, Response, SERVER_CAPABILITIES};
use crate::link::Link;
use crate::registry::Connection;
use crate::server::{Shared, Tls};

/// Reason why a client is not admitted. The client receives both kinds.
pub(crate) enum Refused {
    Protocol(ProtocolError),
    Sql(SqlError),
}

impl From<ProtocolError> for Refused {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

impl From<SqlError> for Refused {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

/// A client that is admitted.
pub(crate) struct Admitted<S> {
    pub session: S,
    /// Compression of the connection from the first command on.
    pub compression: Option<Algorithm>,
    pub nonce: [u8; NONCE_BYTES],
    pub tls: bool,
}

/// Greets the client, authenticates it and opens its session. The caller sends the OK packet, after it has counted the
/// connection.
pub(crate) async fn login<B: Backend>(
    shared: &Shared<B>,
    link: &mut Link,
    connection: &Arc<Connection>,
) -> Result<Admitted<B::Session>, Refused> {
    let settings = &shared.settings;
    let nonce = auth::nonce();
    let mut capabilities = SERVER_CAPABILITIES;
    if settings.compression {
        capabilities |= capability::COMPRESS | capability::ZSTD_COMPRESSION_ALGORITHM;
    }
    if !matches!(settings.tls, Tls::Off) {
        capabilities |= capability::SSL;
    }
    let version = shared.backend.server_version();
    link.packet(|out| {
        let version = version.as_ref().unwrap_or(&settings.server_version);
        let plugin = settings.default_plugin;
        handshake::greeting(out, version, connection.id(), &nonce, capabilities, status::AUTOCOMMIT, plugin);
    });
    link.flush().await?;
    link.reader.set_sequence(link.writer.sequence());
    link.expect().await?;
    let mut tls = false;
    if let Response::Tls { .. } = Response::decode(link.reader.payload())? {
        let (Tls::Offered(identity) | Tls::Required(identity)) = &settings.tls else {
            return Err(SqlError::new(code::HANDSHAKE, "TLS is not switched on in this server").into());
        };
        link.start_tls(identity).await?;
        link.expect().await?;
        tls = true;
    }
    let payload = link.reader.payload().to_vec();
    let answer = match Response::decode(&payload)? {
        Response::Login(answer) => answer,
        Response::Tls { .. } => {
            return Err(ProtocolError::Malformed { what: "second request for TLS", at: 0 }.into());
        }
        Response::TooOld => {
            let message = "the client speaks a protocol from before MySQL 4.1; upgrade the client";
            return Err(SqlError::new(code::NOT_SUPPORTED_AUTH_MODE, message).into());
        }
    };
    link.capabilities = answer.capabilities & capabilities;
    if matches!(settings.tls, Tls::Required(_)) && !tls {
        let message = "connections without TLS are not allowed here; connect with TLS (--ssl-mode=REQUIRED)";
        return Err(SqlError::new(code::SECURE_TRANSPORT_REQUIRED, message).into());
    }
    let Answer { user, proof, plugin, database, .. } = answer;
    authenticate(shared, link, user, connection.peer(), Proof { nonce: Some(&nonce), proof, plugin }).await?;
    let login = Login {
        connection: Arc::clone(connection),
        user: user.to_owned(),
        peer: connection.peer(),
        database: database.map(str::to_owned),
        attributes: answer.attributes,
        collation: answer.collation,
        capabilities: link.capabilities,
        tls,
    };
    connection.logged_in(user);
    let session = shared.backend.open(login).await?;
    // zlib wins if a client offers both, as in MySQL.
    let compression = if link.has(capability::COMPRESS) {
        Some(Algorithm::Zlib)
    } else if link.has(capability::ZSTD_COMPRESSION_ALGORITHM) {
        Some(Algorithm::Zstd { level: i32::from(answer.zstd_level.clamp(1, 22)) })
    } else {
        None
    };
    Ok(Admitted { session, compression, nonce, tls })
}

/// Handles COM_CHANGE_USER: authenticates again and opens another session.
pub(crate) async fn change_user<B: Backend>(
    shared: &Shared<B>,
    link: &mut Link,
    connection: &Arc<Connection>,
    tls: bool,
    fields: &[u8],
    nonce: &[u8; NONCE_BYTES],
) -> Result<B::Session, Refused> {
    let change = ChangeUser::decode(fields, link.capabilities)?;
    // The client's answer may belong to the nonce of an earlier exchange, so it gets a new nonce if it supports that.
    let usable = if link.has(capability::PLUGIN_AUTH) { None } else { Some(nonce) };
    let proof = Proof { nonce: usable, proof: change.proof, plugin: change.plugin };
    authenticate(shared, link, change.user, connection.peer(), proof).await?;
    let login = Login {
        connection: Arc::clone(connection),
        user: change.user.to_owned(),
        peer: connection.peer(),
        database: change.database.map(str::to_owned),
        attributes: change.attributes,
        collation: change.collation.unwrap_or(crate::constants::COLLATION_UTF8MB4),
        capabilities: link.capabilities,
        tls,
    };
    connection.logged_in(change.user);
    Ok(shared.backend.open(login).await?)
}

/// The client's first proof of its password, sent before it was asked.
struct Proof<'a> {
    /// The nonce to which it belongs; `None` if that is unknown.
    nonce: Option<&'a [u8; NONCE_BYTES]>,
    proof: &'a [u8],
    plugin: Option<&'a [u8]>,
}

/// Checks the password. The exchange is the same for users that exist and users that do not.
async fn authenticate<B: Backend>(
    shared: &Shared<B>,
    link: &mut Link,
    user: &str,
    peer: SocketAddr,
    first: Proof<'_>,
) -> Result<(), Refused> {
    let known = shared.backend.verifier(user, peer).await?;
    let verifier = known.unwrap_or_else(Verifier::nobody);
    let default = shared.settings.default_plugin;
    // Without PLUGIN_AUTH, a client knows one plugin only and cannot be asked again. MariaDB's driver for Java 1 has an
    // empty name for the older plugin if it names no database.
    let can_switch = link.has(capability::PLUGIN_AUTH);
    let is_old = !can_switch || first.plugin.is_some_and(<[u8]>::is_empty);
    let named = if is_old { Some(Plugin::Native) } else { first.plugin.and_then(Plugin::from_name) };
    let plugin = [named, Some(default), Some(Plugin::CachingSha2), Some(Plugin::Native)]
        .into_iter()
        .flatten()
        .find(|&plugin| verifier.supports(plugin))
        .unwrap_or(default);
    let no_proof = matches!(first.proof, [] | [0]);
    // A client whose own plugin differs from that of the greeting sends an empty answer and waits to be asked, even if
    // it has no password: MariaDB's library names a plugin of its own while another thread is loading the one from the
    // greeting.
    let ask = can_switch
        && match verifier.is_empty() && no_proof {
            true => named != Some(default),
            false => named != Some(plugin) || no_proof || first.nonce.is_none(),
        };
    let (nonce, proof) = if ask {
        let nonce = auth::nonce();
        link.answer();
        link.packet(|out| handshake::auth_switch(out, plugin, &nonce));
        link.flush().await?;
        link.reader.set_sequence(link.writer.sequence());
        link.expect().await?;
        (nonce, link.reader.payload())
    } else {
        // Only an account without password gets here without a nonce.
        (first.nonce.copied().unwrap_or([0; NONCE_BYTES]), first.proof)
    };
    let with_password = !matches!(proof, [] | [0]);
    let accepted = verifier.accepts_proof(plugin, &nonce, proof) || {
        // With the same plugin: a client cannot be asked twice. An account that has the other plugin is recognised at
        // its next attempt.
        let newest = shared.backend.newest_verifier(user, peer).await?;
        newest.unwrap_or_else(Verifier::nobody).accepts_proof(plugin, &nonce, proof)
    };
    link.answer();
    if !accepted {
        shared.backend.login_failed(user, peer);
        let used = if with_password { "YES" } else { "NO" };
        let message = format!("Access denied for user '{user}'@'{}' (using password: {used})", peer.ip());
        return Err(SqlError::new(code::ACCESS_DENIED, message).into());
    }
    if plugin == Plugin::CachingSha2 && with_password {
        link.packet(handshake::fast_auth_success);
    }
    Ok(())
}
