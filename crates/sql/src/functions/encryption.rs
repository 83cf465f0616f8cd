//! AES and SM4 under the names of Doris and MySQL. Results are bytes.

use arrow::array::{ArrayRef, BinaryViewArray, StringViewArray};
use datafusion::common::{Result, exec_err};

use super::args::{Args, Col};
use super::block_cipher::{BLOCK, Cipher, Mode, Task, parse_mode};
use super::func::{Def, Ret, def};
use super::information::SessionInfo;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("aes_encrypt", &[], (2, 5), Ret::Bytes, |a| crypt(a, &AES, |task, text| task.encrypt(text))),
    def("aes_decrypt", &[], (2, 5), Ret::Bytes, |a| crypt(a, &AES, |task, bytes| task.decrypt(bytes))),
    def("sm4_encrypt", &[], (2, 4), Ret::Bytes, |a| crypt(a, &SM4, |task, text| task.encrypt(text))),
    def("sm4_decrypt", &[], (2, 4), Ret::Bytes, |a| crypt(a, &SM4, |task, bytes| task.decrypt(bytes))),
];

/// The bytes from which an initialization vector is completed if it is too short; an empty vector is this constant.
const VECTOR: Block = *b"DORISDORISDORIS_";

type Block = [u8; BLOCK];

/// The ciphers of a function.
struct Family {
    takes: fn(Cipher) -> bool,
    /// The mode if neither the call nor the session names one.
    mode: (Cipher, Mode),
    /// The mode of a call with additional authenticated data.
    authenticated: (Cipher, Mode),
    /// Whether a call without a vector has the default mode, whatever the session says.
    fixed_without_vector: bool,
}

const AES: Family = Family {
    takes: |cipher| cipher != Cipher::Sm4,
    mode: (Cipher::Aes(16), Mode::Ecb),
    authenticated: (Cipher::Aes(16), Mode::Gcm),
    fixed_without_vector: true,
};

const SM4: Family = Family {
    takes: |cipher| cipher == Cipher::Sm4,
    mode: (Cipher::Sm4, Mode::Ecb),
    authenticated: (Cipher::Sm4, Mode::Ecb),
    fixed_without_vector: false,
};

/// `f(text, key [, vector [, mode [, authenticated]]])`: NULL if the function has no such mode, or if the bytes are not
/// an encryption of a text with this key.
fn crypt(a: &Args, family: &Family, f: fn(&Task, &[u8]) -> Option<Vec<u8>>) -> Result<ArrayRef> {
    let (texts, keys) = (a.bytes(0)?, a.bytes(1)?);
    let vectors: Option<Col<BinaryViewArray>> = a.has(2).then(|| a.bytes(2)).transpose()?;
    let modes: Option<Col<StringViewArray>> = a.has(3).then(|| a.text(3)).transpose()?;
    let authenticated: Option<Col<BinaryViewArray>> = a.has(4).then(|| a.bytes(4)).transpose()?;
    let of_family = |name: &str| parse_mode(name).filter(|(cipher, _)| (family.takes)(*cipher));
    let of_session = match a.config.extensions.get::<SessionInfo>().map(|info| info.encryption_mode.as_str()) {
        _ if authenticated.is_some() => Some(family.authenticated),
        _ if vectors.is_none() && family.fixed_without_vector => Some(family.mode),
        None | Some("" | SessionInfo::ENCRYPTION_MODE) => Some(family.mode),
        Some(name) => of_family(name),
    };
    if let (None, Some((_, mode))) = (&vectors, of_session)
        && mode.vector_length() > 0
    {
        return exec_err!("{}: the mode of block_encryption_mode needs an initialization vector as argument 3", a.name);
    }
    a.binaries(|i| {
        let (text, key) = (texts.at(i)?, keys.at(i)?);
        let mut vector = VECTOR;
        if let Some(given) = &vectors {
            let given = given.at(i)?;
            let length = given.len().min(BLOCK);
            vector[..length].copy_from_slice(&given[..length]);
        }
        let (cipher, mode) = match &modes {
            Some(modes) => match modes.at(i)? {
                "" => of_session?,
                name => of_family(name)?,
            },
            None => of_session?,
        };
        let authenticated = match &authenticated {
            Some(authenticated) => authenticated.at(i)?,
            None => b"",
        };
        a.ask(text.len() + 3 * BLOCK)?;
        f(&Task { cipher, mode, key, vector, authenticated }, text)
    })
}
