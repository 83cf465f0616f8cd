//! Signatures of Google Cloud Storage. It also accepts AWS's signatures, but no request with headers of both
//! (`x-amz-date` and `x-goog-if-generation-match`), so a request with a header of Google's is signed in Google's way,
//! with the same keys.
//!
//! Follows "V4 signing process" of Google Cloud Storage, with HMAC keys.

use std::collections::BTreeMap;

use object_store::aws::AwsCredential;
use object_store::client::HttpRequest;
use sha2::{Digest, Sha256};

const ALGORITHM: &str = "GOOG4-HMAC-SHA256";
/// Credential scope after the date. The region does not matter.
const SCOPE: &str = "auto/storage/goog4_request";
/// Block size of SHA-256 in bytes.
const BLOCK: usize = 64;

/// Signs `request`, whose body has this digest, and removes the headers of AWS's signature.
///
/// # Errors
/// A message if a header is not text.
pub(super) fn sign(request: &mut HttpRequest, credential: &AwsCredential, digest: &str) -> Result<(), String> {
    let now = chrono::Utc::now();
    let (day, at) = (now.format("%Y%m%d").to_string(), now.format("%Y%m%dT%H%M%SZ").to_string());
    let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let own = [("host", host.as_str()), ("x-goog-date", &at), ("x-goog-content-sha256", digest)];
    let headers = request.headers_mut();
    for amazon in ["authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"] {
        headers.remove(amazon);
    }
    for (name, value) in own {
        headers.insert(name, value.parse().map_err(|_| format!("'{value}' is no header"))?);
    }
    let authorization = authorization(request, credential, (&day, &at), digest)?;
    let value = authorization.parse().map_err(|_| "a signature is no header".to_string())?;
    request.headers_mut().insert("authorization", value);
    Ok(())
}

fn authorization(
    request: &HttpRequest,
    credential: &AwsCredential,
    (day, at): (&str, &str),
    digest: &str,
) -> Result<String, String> {
    let mut signed = BTreeMap::new();
    for (name, value) in request.headers() {
        if !matches!(name.as_str(), "content-length" | "user-agent") {
            let value = value.to_str().map_err(|_| format!("header '{name}' is no text"))?;
            signed.insert(name.as_str(), value.trim());
        }
    }
    let names = signed.keys().copied().collect::<Vec<_>>().join(";");
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let mut pairs: Vec<&str> = request.uri().query().unwrap_or_default().split('&').filter(|p| !p.is_empty()).collect();
    pairs.sort_unstable();
    let query: Vec<String> =
        pairs.iter().map(|pair| if pair.contains('=') { pair.to_string() } else { format!("{pair}=") }).collect();
    let canonical =
        [request.method().as_str(), request.uri().path(), &query.join("&"), &lines, &names, digest].join("\n");
    let scope = format!("{day}/{SCOPE}");
    let to_sign = format!("{ALGORITHM}\n{at}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let mut key = format!("GOOG4{}", credential.secret_key).into_bytes();
    for part in scope.split('/') {
        key = hmac(&key, part.as_bytes());
    }
    let key = &key;
    let signature = hex(&hmac(key, to_sign.as_bytes()));
    Ok(format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", credential.key_id))
}

/// Computes HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0u8; BLOCK];
    match key.len() > BLOCK {
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let keyed = |mask: u8, text: &[u8]| {
        let mut hash = Sha256::new();
        hash.update(block.map(|byte| byte ^ mask));
        hash.update(text);
        hash.finalize().to_vec()
    };
    keyed(0x5c, &keyed(0x36, text))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of RFC 4231, cases 2 and 6.
    #[test]
    fn hmac_is_that_of_the_rfc() {
        let found = hex(&hmac(b"Jefe", b"what do ya want for nothing?"));
        assert_eq!(found, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let found = hex(&hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"));
        assert_eq!(found, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }
}
