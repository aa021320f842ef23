//! Ends of the certificates in files that the configuration names.

use std::path::PathBuf;

use http_client::trust;
use service::reload;
use url::Url;

use crate::settings::Settings;

/// Parameters of PostgreSQL's URL that name files of certificates.
const POSTGRES_FILES: [&str; 2] = ["sslrootcert", "sslcert"];

/// Settings whose files SIGHUP has the process read again.
const READ_AGAIN: [&str; 3] = [
    "warehouse.tls_ca_file",
    "warehouse.tls_certificate_file",
    "redis.tls_ca_file",
];

/// Publishes when the first certificate of each file ends, as the process has read it: again after
/// a SIGHUP, where that has it read again. A file that a section reads has been checked by it; a
/// fault of another one is the engine's to report.
pub(super) fn publish(settings: &Settings) {
    let files = files(settings);
    files.iter().for_each(publish_end);
    let read_again: Vec<_> = files
        .into_iter()
        .filter(|(setting, _)| READ_AGAIN.contains(setting))
        .collect();
    if !read_again.is_empty() {
        reload::register("the ends of certificates", move || {
            read_again.iter().for_each(publish_end);
            Ok(())
        });
    }
}

fn publish_end((setting, path): &(&'static str, PathBuf)) {
    match trust::first_end_s(path) {
        Ok(end_s) => {
            let gauge = metrics::gauge!("receipts_certificate_expiry_timestamp_seconds", "setting" => *setting);
            gauge.set(end_s as f64);
        }
        Err(error) => tracing::warn!(%error, "{setting}: the end of its certificates is unknown"),
    }
}

/// Every file of certificates, with the setting that names it.
fn files(settings: &Settings) -> Vec<(&'static str, PathBuf)> {
    let Settings {
        kafka,
        warehouse,
        redis,
        accounts,
        ..
    } = settings;
    let text = |path: &String| Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty());
    let named = [
        ("kafka.ssl_ca", text(&kafka.ssl_ca)),
        ("kafka.ssl_certificate", text(&kafka.ssl_certificate)),
        ("warehouse.tls_ca_file", warehouse.tls_ca_file.clone()),
        ("warehouse.tls_certificate_file", warehouse.tls_certificate_file.clone()),
        ("redis.tls_ca_file", redis.tls_ca_file.clone()),
    ];
    let named = named.into_iter().filter_map(|(setting, path)| Some((setting, path?)));
    let of_postgres = accounts.postgres_url().map(postgres_files).unwrap_or_default();
    named
        .chain(of_postgres.into_iter().map(|path| ("accounts.url", path)))
        .collect()
}

fn postgres_files(url: &str) -> Vec<PathBuf> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let pairs = url.query_pairs();
    let of_files = pairs.filter(|(name, _)| POSTGRES_FILES.contains(&&**name));
    of_files.map(|(_, path)| PathBuf::from(&*path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_postgresql_names_files() {
        let files = postgres_files("postgres://r:p@h/d?sslmode=verify-full&sslrootcert=/etc/ca%20a.pem");
        assert_eq!(files, [PathBuf::from("/etc/ca a.pem")]);
        assert!(postgres_files("postgres://r:p@h/d").is_empty());
    }
}
