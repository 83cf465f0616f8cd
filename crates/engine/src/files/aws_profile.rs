//! Keys and places of AWS's shared files: the profile that AWS_PROFILE names, else `default`.
//!
//! After the AWS SDKs and Tools Reference Guide, "Shared config and credentials files": sections `[name]` of
//! `~/.aws/credentials`, and `[profile name]` (or `[default]`) of `~/.aws/config`. Profiles whose keys come from elsewhere
//! (`role_arn`, `sso_session`, `credential_process`) are refused where AWS_PROFILE names them.

use std::collections::HashMap;
use std::path::PathBuf;

use configparser::ini::Ini;

use crate::error::{EngineError, Result};

/// What a profile says. All of it is as it is written.
#[derive(Default, PartialEq, Eq)]
pub(super) struct AwsProfile {
    /// Access key and secret key.
    pub(super) keys: Option<(String, String)>,
    pub(super) token: Option<String>,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

/// Ways to keys that a profile may name and that are not gone here.
const ELSEWHERE: [&str; 6] =
    ["role_arn", "sso_session", "sso_start_url", "credential_process", "web_identity_token_file", "credential_source"];

impl AwsProfile {
    /// The profile that an environment means; empty if it names none, and there is no `default` that can be read.
    ///
    /// # Errors
    /// AWS_PROFILE names a profile that there is not, or one without keys; a file cannot be read or is no INI file.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Result<AwsProfile> {
        let named = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE")).filter(|name| !name.is_empty());
        match (Self::read(&variable, named.as_deref()), named) {
            // Nobody asked for it.
            (Err(error), None) => {
                tracing::warn!(%error, "the default profile of AWS is not used");
                Ok(AwsProfile::default())
            }
            (read, _) => read,
        }
    }

    fn read(variable: impl Fn(&str) -> Option<String>, named: Option<&str>) -> Result<AwsProfile> {
        let name = named.unwrap_or("default");
        let file = |own: &str, usual: &str| {
            let home = || Some(PathBuf::from(variable("HOME")?).join(".aws").join(usual));
            variable(own).filter(|path| !path.is_empty()).map(PathBuf::from).or_else(home)
        };
        let files = [file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), file("AWS_CONFIG_FILE", "config")];
        let mut found: HashMap<String, String> = HashMap::new();
        let mut is_there = false;
        for (path, section) in files.iter().zip([name.to_string(), format!("profile {name}")]) {
            let Some(path) = path else { continue };
            let text = match std::fs::read_to_string(path) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                text => text.map_err(|e| crate::files::cannot(path, "read", &e))?,
            };
            let bad = |e: String| EngineError::invalid(format!("'{}' is no file of AWS profiles: {e}", path.display()));
            let mut sections = Ini::new_cs().read(text).map_err(bad)?;
            let own = sections.remove(&section).or_else(|| sections.remove(name));
            is_there |= own.is_some();
            // What the first file says counts.
            for (key, value) in own.into_iter().flatten() {
                if let Some(value) = value.filter(|v| !v.is_empty()) {
                    found.entry(key.to_ascii_lowercase()).or_insert(value);
                }
            }
        }
        let shown = || files.iter().flatten().map(|p| format!("'{}'", p.display())).collect::<Vec<_>>().join(" or ");
        if named.is_some() && !is_there {
            return Err(EngineError::invalid(format!("AWS_PROFILE = '{name}': no such profile in {}", shown())));
        }
        let keys = found.remove("aws_access_key_id").zip(found.remove("aws_secret_access_key"));
        if named.is_some() && keys.is_none() {
            let way = ELSEWHERE.into_iter().find(|way| found.contains_key(*way));
            let why =
                way.map_or("has no keys".to_string(), |way| format!("gets its keys by {way}, which is not supported"));
            return Err(EngineError::invalid(format!(
                "AWS_PROFILE = '{name}': this profile of {} {why}; write aws_access_key_id and aws_secret_access_key there, or \
                 set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                shown()
            )));
        }
        let mut take = |key| found.remove(key);
        Ok(AwsProfile {
            token: take("aws_session_token").filter(|_| keys.is_some()),
            region: take("region"),
            endpoint: take("endpoint_url"),
            keys,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_in_both_files() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".aws");
        std::fs::create_dir(&own).unwrap();
        let read = |profile: Option<&str>| {
            AwsProfile::of(|variable| match variable {
                "HOME" => Some(home.path().display().to_string()),
                "AWS_PROFILE" => profile.map(str::to_string),
                _ => None,
            })
        };
        assert!(read(None).unwrap() == AwsProfile::default(), "no files");
        std::fs::write(
            own.join("credentials"),
            "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=b/+=c\n\n[Other]\naws_access_key_id=O\n\
             aws_secret_access_key=P\naws_session_token=T\n",
        )
        .unwrap();
        std::fs::write(
            own.join("config"),
            "[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n[profile Other]\nregion=us-east-2\n\
             endpoint_url = http://127.0.0.1:9000\n[profile far]\nrole_arn = arn:aws:iam::1:role/r\n",
        )
        .unwrap();
        let pair = |a: &str, b: &str| Some((a.to_string(), b.to_string()));
        let found = read(None).unwrap();
        assert_eq!((found.keys, found.token, found.region.as_deref()), (pair("A", "b/+=c"), None, Some("eu-west-1")));
        let found = read(Some("Other")).unwrap();
        assert_eq!((found.keys, found.token.as_deref()), (pair("O", "P"), Some("T")));
        assert_eq!(found.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        for (profile, told) in [("nobody", "no such profile in '"), ("far", "gets its keys by role_arn")] {
            let e = read(Some(profile)).err().unwrap();
            assert!(e.message.contains(told) && e.message.contains(".aws/config"), "{}", e.message);
        }
        std::fs::write(own.join("config"), "[broken\n").unwrap();
        assert!(read(Some("Other")).err().unwrap().message.contains("config' is no file of AWS profiles"));
        assert!(read(None).unwrap() == AwsProfile::default());
    }
}
