//! TLS and compression over real sockets.

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use common::{Client, Running};
use dipper_mysql::constants::{capability, command};
use dipper_mysql::{Kill, Settings, Tls, TlsIdentity, code};
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};

/// Takes every certificate, as clients do with `--ssl-mode=REQUIRED`.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn connection() -> ClientConnection {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
}

/// Logs in under TLS. With `eager`, the first TLS message leaves in one write with the request for TLS.
fn tls_login(server: &Running, eager: bool) -> StreamOwned<ClientConnection, std::net::TcpStream> {
    let mut client = server.connect();
    client.capabilities |= capability::SSL;
    let nonce = client.greeting();
    let request = [&client.capabilities.to_le_bytes()[..], &[0; 4], &[45], &[0; 23]].concat();
    let mut bytes = client.frame(&request);
    let mut tls = connection();
    if eager {
        tls.write_tls(&mut bytes).unwrap();
    }
    client.stream.write_all(&bytes).unwrap();
    let proof = Client::proof(&client.plugin, &nonce, "secret");
    let response = client.response("alice", &proof, None);
    let packet = client.frame(&response);
    let mut stream = StreamOwned::new(tls, client.stream.try_clone().unwrap());
    stream.write_all(&packet).unwrap();
    let mut answer = [0; 17];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"\x02\0\0\x03\x01\x03\x07\0\0\x04\0\0\0\x02\0\0\0");
    stream
}

fn settings(tls: fn(TlsIdentity) -> Tls) -> Settings {
    Settings { tls: tls(TlsIdentity::self_signed(&["localhost"]).unwrap()), ..Settings::default() }
}

#[test]
fn tls_is_offered() {
    let server = Running::new(settings(Tls::Offered));
    for eager in [false, true] {
        let mut stream = tls_login(&server, eager);
        stream.write_all(b"\x09\0\0\0\x03rows 100").unwrap();
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head, [1, 0, 0, 1, 1]);
    }
    server.root();
}

#[test]
fn tls_is_required() {
    let server = Running::new(settings(Tls::Required));
    let refused = server.connect().login("root", "", None).unwrap_err();
    assert_eq!((refused.code, &*refused.state), (code::SECURE_TRANSPORT_REQUIRED, "HY000"));
    tls_login(&server, true);
}

#[test]
fn work_under_tls_ends_with_its_client() {
    use std::sync::atomic::Ordering;
    let server = Running::new(settings(Tls::Offered));
    let mut stream = tls_login(&server, false);
    stream.write_all(b"\x06\0\0\0\x03sleep").unwrap();
    common::eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 1);
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    drop(stream);
    common::eventually(|| server.counters.sleeping.load(Ordering::SeqCst) == 0);
}

#[test]
fn a_part_of_a_record_keeps_no_idle_connection() {
    let server = Running::new(settings(Tls::Offered));
    let mut stream = tls_login(&server, false);
    // By then it has given its buffers back.
    std::thread::sleep(Duration::from_millis(2500));
    stream.sock.write_all(&[0x17, 3, 3, 0, 100, 1, 2, 3]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    server.registry.list().iter().for_each(|c| c.kill(Kill::Connection));
    common::eventually(|| server.registry.is_empty());
}

/// Compresses and expands frames as a client does, one frame for one packet or a piece of it.
struct Frames {
    zstd: bool,
    client: Client,
    sequence: u8,
    plain: Vec<u8>,
}

impl Frames {
    fn new(server: &Running, zstd: bool) -> Self {
        let mut client = server.connect();
        client.capabilities |= if zstd { capability::ZSTD_COMPRESSION_ALGORITHM } else { capability::COMPRESS };
        let nonce = client.greeting();
        let proof = Client::proof(&client.plugin, &nonce, "");
        let mut response = client.response("root", &proof, None);
        if zstd {
            response.push(5);
        }
        client.send(&response);
        client.finish_login("").unwrap();
        Self { zstd, client, sequence: 0, plain: Vec::new() }
    }

    fn send(&mut self, payload: &[u8]) {
        self.client.sequence = 0;
        self.sequence = 0;
        let packet = self.client.frame(payload);
        // Frames need not follow packets.
        for piece in packet.chunks(100_000) {
            let body = if piece.len() < 50 {
                piece.to_vec()
            } else if self.zstd {
                zstd::bulk::compress(piece, 3).unwrap()
            } else {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(piece).unwrap();
                encoder.finish().unwrap()
            };
            let expanded = if piece.len() < 50 { 0 } else { piece.len() as u32 };
            let mut frame = (body.len() as u32).to_le_bytes()[..3].to_vec();
            frame.push(self.sequence);
            frame.extend_from_slice(&expanded.to_le_bytes()[..3]);
            frame.extend_from_slice(&body);
            self.client.stream.write_all(&frame).unwrap();
            self.sequence += 1;
        }
    }

    fn receive(&mut self) -> Vec<u8> {
        loop {
            if self.plain.len() >= 4 {
                let length = u32::from_le_bytes([self.plain[0], self.plain[1], self.plain[2], 0]) as usize;
                if self.plain.len() >= 4 + length {
                    let payload = self.plain[4..4 + length].to_vec();
                    self.plain.drain(..4 + length);
                    return payload;
                }
            }
            let mut header = [0; 7];
            self.client.stream.read_exact(&mut header).unwrap();
            assert_eq!(header[3], self.sequence, "sequence number of the frame");
            self.sequence = self.sequence.wrapping_add(1);
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            let expanded = u32::from_le_bytes([header[4], header[5], header[6], 0]) as usize;
            let mut body = vec![0; length];
            self.client.stream.read_exact(&mut body).unwrap();
            if expanded == 0 {
                self.plain.extend(body);
            } else if self.zstd {
                self.plain.extend(zstd::bulk::decompress(&body, expanded).unwrap());
            } else {
                let mut decoder = flate2::read::ZlibDecoder::new(&body[..]);
                decoder.read_to_end(&mut self.plain).unwrap();
            }
        }
    }
}

#[test]
fn compressed_connections() {
    let server = Running::new(Settings::default());
    for zstd in [false, true] {
        let mut frames = Frames::new(&server, zstd);
        for _ in 0..3 {
            frames.send(&[command::PING]);
            assert_eq!(frames.receive()[0], 0);
            frames.send(b"\x03rows 50000");
            (0..3).for_each(|_| drop(frames.receive()));
            let mut rows = 0;
            while frames.receive()[0] != 0xfe {
                rows += 1;
            }
            assert_eq!(rows, 50_000);
            frames.send(&[b"\x03length ", "x".repeat(1_000_000).as_bytes()].concat());
            (0..3).for_each(|_| drop(frames.receive()));
            assert_eq!(frames.receive(), b"\x071000007");
            assert_eq!(frames.receive()[0], 0xfe);
        }
        // A frame that is no compressed data ends the connection with an error.
        frames.sequence = 0;
        frames.client.stream.write_all(&[4, 0, 0, 0, 100, 0, 0, 1, 2, 3, 4]).unwrap();
        frames.sequence = 1;
        let error = common::error(&frames.receive());
        assert_eq!(error.code, code::NET_UNCOMPRESS);
        assert_eq!(frames.client.stream.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn compression_can_be_switched_off() {
    let server = Running::new(Settings { compression: false, ..Settings::default() });
    let mut client = server.connect();
    client.capabilities |= capability::COMPRESS | capability::ZSTD_COMPRESSION_ALGORITHM;
    client.login("root", "", None).unwrap();
    assert_eq!(client.query("one")[0].rows().len(), 1);
}
