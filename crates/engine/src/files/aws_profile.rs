//! Keys and places of AWS's shared files: the profile that AWS_PROFILE names, or `default` where
//! AWS_SHARED_CREDENTIALS_FILE names a file. Without either variable they are not read: a store that is open to all, or is
//! not AWS's, should not be asked with keys that are for another.
//!
//! After the AWS SDKs and Tools Reference Guide, "Shared config and credentials files": sections `[name]` of
//! `~/.aws/credentials`, and `[profile name]` (or `[default]`) of `~/.aws/config`. A comment begins a line, or stands
//! behind white space. Settings of single services (indented lines) and keys from elsewhere (`role_arn`, `sso_session`,
//! `credential_process`) are not used, and a profile with no others is refused.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use configparser::ini::Ini;

use crate::error::{EngineError, Result};

/// What a profile says.
pub(super) struct AwsProfile {
    /// Access key and secret key.
    pub(super) keys: (String, String),
    pub(super) token: Option<String>,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

/// Ways to keys that a profile may name and that are not gone here.
const ELSEWHERE: [&str; 6] =
    ["role_arn", "sso_session", "sso_start_url", "credential_process", "web_identity_token_file", "credential_source"];

/// The settings of a section, if the file has it.
type Section = Option<HashMap<String, String>>;

impl AwsProfile {
    /// The profile that an environment means; `None` if it means none.
    ///
    /// # Errors
    /// There is no such profile, or it has no keys; a file cannot be read or is no INI file.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<AwsProfile>> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let named = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
        if named.is_none() && variable("AWS_SHARED_CREDENTIALS_FILE").is_none() {
            return Ok(None);
        }
        let name = named.unwrap_or_else(|| "default".into());
        let file = |own: &str, usual: &str| {
            let home = || Some(PathBuf::from(variable("HOME")?).join(".aws").join(usual));
            variable(own).map(PathBuf::from).or_else(home)
        };
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let config = file("AWS_CONFIG_FILE", "config");
        let in_config = if name == "default" { name.clone() } else { format!("profile {name}") };
        let found = [section(credentials.as_deref(), &name)?, section(config.as_deref(), &in_config)?];
        let refused = |why: &str| {
            let files: Vec<_> = [&credentials, &config].into_iter().flatten().collect();
            let files: Vec<_> = files.iter().map(|path| format!("'{}'", path.display())).collect();
            EngineError::invalid(format!("profile '{name}' of {}: {why}", files.join(" and ")))
        };
        if found.iter().all(Option::is_none) {
            return Err(refused("there is none of this name (AWS_PROFILE)"));
        }
        let get = |section: &Section, key: &str| section.as_ref()?.get(key).cloned();
        let any = |key: &str| found.iter().find_map(|section| get(section, key));
        let pair = |section: &Section| {
            let keys = get(section, "aws_access_key_id").zip(get(section, "aws_secret_access_key"))?;
            Some((keys, get(section, "aws_session_token")))
        };
        let Some((keys, token)) = found.iter().find_map(pair) else {
            let way = ELSEWHERE.into_iter().find(|way| any(way).is_some());
            return Err(refused(&match way {
                Some(way) => format!(
                    "it gets its keys by {way}, which is not supported; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                ),
                None => "it has no aws_access_key_id and aws_secret_access_key".into(),
            }));
        };
        Ok(Some(AwsProfile { keys, token, region: any("region"), endpoint: any("endpoint_url") }))
    }
}

fn section(path: Option<&Path>, name: &str) -> Result<Section> {
    let Some(path) = path else { return Ok(None) };
    let text = match std::fs::read_to_string(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|e| crate::files::cannot(path, "read", &e))?,
    };
    let own: Vec<&str> = text.lines().filter(|line| !line.starts_with([' ', '\t'])).collect();
    let mut ini = Ini::new_cs();
    // It would cut keys that hold these signs.
    ini.set_inline_comment_symbols(Some(&[]));
    let bad = |e: String| EngineError::invalid(format!("'{}' is no file of AWS profiles: {e}", path.display()));
    let found = ini.read(own.join("\n")).map_err(bad)?.remove(name);
    let plain = |value: String| {
        let comment = [" #", " ;", "\t#", "\t;"].iter().filter_map(|sign| value.find(sign)).min();
        value[..comment.unwrap_or(value.len())].trim().to_string()
    };
    let set = |(key, value): (String, Option<String>)| {
        Some((key.to_ascii_lowercase(), value.map(plain).filter(|value| !value.is_empty())?))
    };
    Ok(found.map(|settings| settings.into_iter().filter_map(set).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_in_both_files() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".aws");
        std::fs::create_dir(&own).unwrap();
        let read = |profile: Option<&str>, credentials: Option<&str>| {
            AwsProfile::of(|variable| match variable {
                "HOME" => Some(home.path().display().to_string()),
                "AWS_PROFILE" => profile.map(str::to_string),
                "AWS_SHARED_CREDENTIALS_FILE" => credentials.map(|name| own.join(name).display().to_string()),
                _ => None,
            })
        };
        let error = |profile| read(Some(profile), None).err().unwrap().message;
        assert!(error("Other").contains("there is none of this name"), "no files");
        std::fs::write(
            own.join("credentials"),
            "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=b/+=c#d;e ; mine\n\n[Other]\n\
             aws_access_key_id=O\naws_secret_access_key=P\naws_session_token=T\n[half]\naws_access_key_id=H\n",
        )
        .unwrap();
        std::fs::write(
            own.join("config"),
            "[default]\nregion = eu-west-1\ns3 =\n  endpoint_url = http://elsewhere\n[profile Other]\nregion=us-east-2\n\
             endpoint_url = http://127.0.0.1:9000\n[profile far]\nrole_arn = arn:aws:iam::1:role/r\n[bare]\n\
             aws_access_key_id=B\naws_secret_access_key=B\n[profile half]\naws_secret_access_key=I\n",
        )
        .unwrap();
        assert!(read(None, None).unwrap().is_none(), "nobody asked");
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        for found in [read(Some("default"), None), read(None, Some("credentials"))] {
            let found = found.unwrap().unwrap();
            assert_eq!((found.keys, found.token, found.endpoint), (pair("A", "b/+=c#d;e"), None, None));
            assert_eq!(found.region.as_deref(), Some("eu-west-1"));
        }
        let found = read(Some("Other"), None).unwrap().unwrap();
        assert_eq!((found.keys, found.token.as_deref()), (pair("O", "P"), Some("T")));
        assert_eq!(found.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        for (profile, told) in [
            ("nobody", "there is none of this name"),
            ("bare", "there is none of this name"),
            ("far", "gets its keys by role_arn"),
            // A pair is one file's.
            ("half", "it has no aws_access_key_id"),
        ] {
            assert!(error(profile).contains(told) && error(profile).contains(".aws/config"), "{}", error(profile));
        }
        std::fs::write(own.join("config"), "[broken\n").unwrap();
        assert!(error("Other").contains("config' is no file of AWS profiles"));
    }
}
