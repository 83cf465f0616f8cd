//! Flags for data in an object store.

use std::path::PathBuf;

use clap::Args;
use dipper_engine::{RemoteOptions, Secret};

/// Flags for data in an object store. Keys are taken from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
/// AWS_SESSION_TOKEN; a web identity, a container's, the profile that AWS_PROFILE names in ~/.aws/credentials or
/// ~/.aws/config, or with --s3-instance-profile the machine's): a flag would show them to everyone on the machine.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Object storage")]
pub(crate) struct RemoteArguments {
    /// Where an S3 store that is not AWS's listens, e.g. http://127.0.0.1:9000
    #[arg(long, env = "DIPPER_S3_ENDPOINT", value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Region of the bucket; also AWS_REGION
    #[arg(long, env = "DIPPER_S3_REGION", value_name = "NAME")]
    s3_region: Option<String>,
    /// Whether the bucket is part of the path of requests; if not given, it is wherever an endpoint is set
    #[arg(long, env = "DIPPER_S3_PATH_STYLE", value_name = "BOOL")]
    s3_path_style: Option<bool>,
    /// The store's words for an object that is made only if there is none: s3 (If-None-Match), oss, cos or gcs; if not
    /// given, those of the endpoint's owner
    #[arg(long, env = "DIPPER_S3_CREATE_IF_ABSENT", value_name = "WORDS")]
    s3_create_if_absent: Option<String>,
    /// Ask the machine's metadata service for keys
    #[arg(long, env = "DIPPER_S3_INSTANCE_PROFILE")]
    s3_instance_profile: bool,
    /// Directory of the data cache; below ~/.cache for data in an object store
    #[arg(long, env = "DIPPER_CACHE_DIR", value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Size of the data cache on disk, e.g. 100GiB; half of what is free without it, 0 for none
    #[arg(long, env = "DIPPER_CACHE_SIZE", value_parser = crate::parse_bytes, value_name = "SIZE")]
    cache_size: Option<u64>,
}

impl RemoteArguments {
    pub(crate) fn options(&self) -> RemoteOptions {
        let flags = [
            ("s3.endpoint", self.s3_endpoint.clone()),
            ("s3.region", self.s3_region.clone()),
            ("s3.use_path_style", self.s3_path_style.map(|b| b.to_string())),
            ("s3.create_if_absent", self.s3_create_if_absent.clone()),
            ("s3.use_instance_profile", self.s3_instance_profile.then(|| "true".to_string())),
        ];
        let given = flags.into_iter().filter_map(|(name, value)| Some((name.to_string(), Secret::new(value?))));
        RemoteOptions { properties: given.collect(), cache_dir: self.cache_dir.clone(), cache_bytes: self.cache_size }
    }
}
