//! Keys and regions from AWS's shared files: the profile that AWS_PROFILE names, or `default` if
//! AWS_SHARED_CREDENTIALS_FILE names a file. Without either variable the files are not read: a store that is public, or
//! is not AWS's, should not get requests with keys for another.
//!
//! Follows the AWS SDKs and Tools Reference Guide, "Shared config and credentials files": sections `[name]` of
//! `~/.aws/credentials`, and `[profile name]` (or `[default]`) of `~/.aws/config`. A comment begins a line, or follows
//! white space. Settings of single services (indented lines) are ignored. A profile has keys, a program that prints
//! them (`credential_process`), or a role (`role_arn`) that is assumed with another profile's keys (`source_profile`);
//! profiles that get their keys in another way are refused. [`credentials`](super::credentials) uses the result.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use configparser::ini::Ini;
use object_store::aws::AwsCredential;

use super::credentials::Role;
use crate::error::{EngineError, Result};

/// The settings of a profile.
#[derive(Debug)]
pub(super) struct AwsProfile {
    pub(super) keys: KeySource,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

/// The source of a profile's keys.
#[derive(Debug)]
pub(super) enum KeySource {
    /// Keys that are written in a file.
    Written(AwsCredential),
    /// A command line that prints the keys.
    Process(String),
    /// A role that is assumed with the keys of another source.
    Role(Role, Box<KeySource>),
}

/// Settings for sources of keys that are not supported.
const ELSEWHERE: [&str; 5] =
    ["sso_session", "sso_start_url", "web_identity_token_file", "credential_source", "mfa_serial"];

/// Most profiles in a chain of assumed roles.
const ROLES_MAX: usize = 5;

/// The settings of a section; `None` if the file lacks the section.
type Section = Option<HashMap<String, String>>;

/// The shared files that the environment names, and the name of the profile.
#[derive(Debug, Clone)]
pub(super) struct ProfileFiles {
    name: String,
    credentials: Option<PathBuf>,
    config: Option<PathBuf>,
    /// Keys in the environment itself, for `credential_source = Environment`.
    environment: Option<(String, String, Option<String>)>,
}

/// Modification times and sizes of the two files.
pub(super) type Stamp = [Option<(SystemTime, u64)>; 2];

impl ProfileFiles {
    /// Returns the files and the profile; `None` if the environment names no profile.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Option<ProfileFiles> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let named = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
        if named.is_none() && variable("AWS_SHARED_CREDENTIALS_FILE").is_none() {
            return None;
        }
        let file = |own: &str, usual: &str| {
            let home = || Some(PathBuf::from(variable("HOME")?).join(".aws").join(usual));
            variable(own).map(PathBuf::from).or_else(home)
        };
        let keys = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY"));
        Some(ProfileFiles {
            name: named.unwrap_or_else(|| "default".into()),
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: file("AWS_CONFIG_FILE", "config"),
            environment: keys.map(|(key, secret)| (key, secret, variable("AWS_SESSION_TOKEN"))),
        })
    }

    /// Returns the current stamp of the files. If it differs from an earlier one, the files may have changed.
    pub(super) fn stamp(&self) -> Stamp {
        [&self.credentials, &self.config].map(|path| {
            let meta = std::fs::metadata(path.as_ref()?).ok()?;
            Some((meta.modified().ok()?, meta.len()))
        })
    }

    /// Reads the profile from the current files.
    ///
    /// # Errors
    /// `Invalid` if there is no such profile, it has no supported source of keys, or a file is not an INI file; `File`
    /// if a file cannot be read.
    pub(super) fn read(&self) -> Result<AwsProfile> {
        self.profile(&self.name, 0)
    }

    fn profile(&self, name: &str, depth: usize) -> Result<AwsProfile> {
        let in_config = if name == "default" { name.to_string() } else { format!("profile {name}") };
        let (credentials, config) = (self.credentials.as_deref(), self.config.as_deref());
        let found = [section(credentials, name)?, section(config, &in_config)?];
        let refused = |why: &str| {
            let files: Vec<_> = [credentials, config].into_iter().flatten().collect();
            let files: Vec<_> = files.iter().map(|path| format!("'{}'", path.display())).collect();
            EngineError::invalid(format!("profile '{name}' of {}: {why}", files.join(" and ")))
        };
        if found.iter().all(Option::is_none) {
            return Err(refused("there is none of this name (AWS_PROFILE)"));
        }
        let get = |section: &Section, key: &str| section.as_ref()?.get(key).cloned();
        let any = |key: &str| found.iter().find_map(|section| get(section, key));
        let written = |section: &Section| {
            let (key_id, secret_key) = get(section, "aws_access_key_id").zip(get(section, "aws_secret_access_key"))?;
            Some(AwsCredential { key_id, secret_key, token: get(section, "aws_session_token") })
        };
        let written = || found.iter().find_map(written);
        let role = any("role_arn").filter(|_| any("web_identity_token_file").is_none());
        let keys = if let Some(arn) = role {
            let base = match (any("source_profile"), any("credential_source")) {
                _ if depth == ROLES_MAX => {
                    return Err(refused("its roles lead on to others without end (source_profile)"));
                }
                // A profile may assume a role with keys of its own.
                (Some(source), _) if source == name => KeySource::Written(
                    written().ok_or_else(|| refused("it is its own source_profile, and has no keys"))?,
                ),
                (Some(source), _) => self.profile(&source, depth + 1)?.keys,
                (None, Some(source)) if source == "Environment" => match &self.environment {
                    Some((key_id, secret_key, token)) => KeySource::Written(AwsCredential {
                        key_id: key_id.clone(),
                        secret_key: secret_key.clone(),
                        token: token.clone(),
                    }),
                    None => {
                        return Err(refused(
                            "its credential_source = Environment needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                        ));
                    }
                },
                (None, other) => {
                    let what = other.map_or("no source_profile".into(), |o| {
                        format!("credential_source = {o}, which is not supported")
                    });
                    return Err(refused(&format!("role_arn takes the keys of a source_profile, and there is {what}")));
                }
            };
            if any("mfa_serial").is_some() {
                return Err(refused("its role asks for a code (mfa_serial), which nobody types in"));
            }
            let seconds = any("duration_seconds").map(|text| text.parse());
            let seconds = seconds.transpose().map_err(|_| refused("duration_seconds is no number"))?;
            KeySource::Role(
                Role { arn, external_id: any("external_id"), session_name: any("role_session_name"), seconds },
                Box::new(base),
            )
        } else if let Some(keys) = written() {
            KeySource::Written(keys)
        } else if let Some(command) = any("credential_process") {
            KeySource::Process(command)
        } else {
            let way = ELSEWHERE.into_iter().find(|way| any(way).is_some());
            return Err(refused(&match way {
                Some(way) => format!(
                    "it gets its keys by {way}, which is not supported; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                ),
                None => "it has no aws_access_key_id and aws_secret_access_key".into(),
            }));
        };
        Ok(AwsProfile { keys, region: any("region"), endpoint: any("endpoint_url") })
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
    // Inline comments would cut keys that contain these characters.
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
            let files = ProfileFiles::of(|variable| match variable {
                "HOME" => Some(home.path().display().to_string()),
                "AWS_PROFILE" => profile.map(str::to_string),
                "AWS_SHARED_CREDENTIALS_FILE" => credentials.map(|name| own.join(name).display().to_string()),
                _ => None,
            });
            files.map(|files| files.read()).transpose()
        };
        let keys = |profile: &AwsProfile| match &profile.keys {
            KeySource::Written(keys) => (keys.key_id.clone(), keys.secret_key.clone(), keys.token.clone()),
            other => panic!("{other:?}"),
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
             aws_access_key_id=B\naws_secret_access_key=B\n[profile half]\naws_secret_access_key=I\n\
             [profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = Other\nexternal_id = x\n\
             [profile chain]\nrole_arn = arn:2\nsource_profile = role\n[profile circle]\nrole_arn = arn:3\n\
             source_profile = round\n[profile round]\nrole_arn = arn:4\nsource_profile = circle\n\
             [profile program]\ncredential_process = /bin/keys --all\n[profile sso]\nsso_session = s\n",
        )
        .unwrap();
        assert!(read(None, None).unwrap().is_none(), "nobody asked");
        for found in [read(Some("default"), None), read(None, Some("credentials"))] {
            let found = found.unwrap().unwrap();
            assert_eq!((keys(&found), found.endpoint), (("A".into(), "b/+=c#d;e".into(), None), None));
            assert_eq!(found.region.as_deref(), Some("eu-west-1"));
        }
        let found = read(Some("Other"), None).unwrap().unwrap();
        assert_eq!(keys(&found), ("O".into(), "P".into(), Some("T".into())));
        assert_eq!(found.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        for (profile, told) in [
            ("nobody", "there is none of this name"),
            ("bare", "there is none of this name"),
            ("far", "there is no source_profile"),
            ("circle", "without end"),
            ("sso", "gets its keys by sso_session"),
            // Both keys must be in the same file.
            ("half", "it has no aws_access_key_id"),
        ] {
            assert!(error(profile).contains(told) && error(profile).contains(".aws/config"), "{}", error(profile));
        }
        let source = |profile| read(Some(profile), None).unwrap().unwrap().keys;
        assert!(matches!(source("program"), KeySource::Process(command) if command == "/bin/keys --all"));
        let KeySource::Role(role, base) = source("role") else { panic!() };
        assert_eq!((role.arn.as_str(), role.external_id.as_deref()), ("arn:aws:iam::1:role/r", Some("x")));
        assert!(matches!(*base, KeySource::Written(keys) if keys.key_id == "O"));
        assert!(matches!(source("chain"), KeySource::Role(_, base) if matches!(*base, KeySource::Role(..))));
        std::fs::write(own.join("config"), "[broken\n").unwrap();
        assert!(error("Other").contains("config' is no file of AWS profiles"));
    }
}
