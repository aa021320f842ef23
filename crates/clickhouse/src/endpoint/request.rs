//! From a request's head and body to a statement.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE};
use hyper::http::request::Parts;

use super::answer::{EndpointFault, Packing};
use super::body::StatementBody;
use super::multipart;
use super::settings::literal;
use super::sql::{BODY_PARAM, StatementShape, shape};
use crate::statements::{Statement, StatementKind};

/// Head of a request.
#[derive(Debug)]
pub(crate) struct StatementHead {
    query: Option<String>,
    database: String,
    format: String,
    settings: Vec<(String, String)>,
    params: Vec<(String, String)>,
    multipart: Option<String>,
    /// Whether the body comes in ClickHouse's frames.
    pub(crate) framed: bool,
    /// Compression of the answer.
    pub(crate) packing: Packing,
    credentials: (Option<String>, Option<String>),
}

impl StatementHead {
    /// Reads URL parameters and headers.
    pub(crate) fn parse(parts: &Parts) -> Result<Self, EndpointFault> {
        let header = |name: &str| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let accepts_lz4 = parts
            .headers
            .get(ACCEPT_ENCODING)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("lz4")));
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let mut head = Self {
            query: None,
            database: header("x-clickhouse-database").unwrap_or_else(|| "default".to_owned()),
            format: header("x-clickhouse-format").unwrap_or_else(|| "TabSeparated".to_owned()),
            settings: Vec::new(),
            params: Vec::new(),
            multipart: content_type
                .filter(|kind| kind.starts_with("multipart/form-data"))
                .map(str::to_owned),
            framed: false,
            packing: if accepts_lz4 { Packing::Lz4 } else { Packing::Plain },
            credentials: (header("x-clickhouse-user"), header("x-clickhouse-key")),
        };
        if parts.headers.contains_key(AUTHORIZATION) {
            return Err(EndpointFault::Unauthorized);
        }
        let mut http_compression = true;
        for (name, value) in form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
            match &*name {
                "query" => head.query = Some(value.into_owned()),
                "database" => head.database = value.into_owned(),
                "default_format" => head.format = value.into_owned(),
                "decompress" => head.framed = value == "1",
                "compress" if value == "1" => head.packing = Packing::Frames,
                "compress" => {}
                "enable_http_compression" => http_compression = value != "0",
                "user" => head.credentials.0 = Some(value.into_owned()),
                "password" => head.credentials.1 = Some(value.into_owned()),
                _ => head.set(&name, &value)?,
            }
        }
        if !http_compression && head.packing == Packing::Lz4 {
            head.packing = Packing::Plain;
        }
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if head.database.is_empty() || !plain(&head.database) || !plain(&head.format) {
            return Err(EndpointFault::BadRequest(
                "A database or format has an impossible name".to_owned(),
            ));
        }
        Ok(head)
    }

    /// User and password, as far as they were given.
    pub(crate) fn credentials(&self) -> (&str, &str) {
        (
            self.credentials.0.as_deref().unwrap_or("default"),
            self.credentials.1.as_deref().unwrap_or_default(),
        )
    }

    /// Whether the body holds the query rather than rows: then it has the smaller limit.
    pub(crate) fn body_is_query(&self) -> bool {
        self.query.is_none() || self.multipart.is_some()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), EndpointFault> {
        if let Some(param) = name.strip_prefix("param_") {
            self.params.push((param.to_owned(), value.to_owned()));
        } else if let Some(literal) = literal(name, value).map_err(EndpointFault::Setting)? {
            self.settings.push((name.to_owned(), literal));
        }
        Ok(())
    }

    /// The statement to run.
    pub(crate) fn statement(
        mut self,
        body: StatementBody,
    ) -> Result<(Statement, Option<StatementBody>), EndpointFault> {
        let mut body = Some(body);
        if let Some(kind) = self.multipart.take() {
            let bytes = body.take().map(StatementBody::into_bytes).unwrap_or_default();
            let fields = multipart::fields(&kind, &bytes);
            for (name, value) in
                fields.ok_or_else(|| EndpointFault::BadRequest("The multipart body is broken".to_owned()))?
            {
                if name == "query" {
                    self.query = Some(value)
                } else {
                    self.set(&name, &value)?
                }
            }
        }
        let sql = match self.query.take() {
            Some(sql) => sql,
            None => {
                let bytes = body.take().map(StatementBody::into_bytes).unwrap_or_default();
                let sql = std::str::from_utf8(&bytes);
                sql.map_err(|_| EndpointFault::BadRequest("The query is not UTF-8".to_owned()))?
                    .to_owned()
            }
        };
        let (sql, format, kind) = match shape(&sql).map_err(EndpointFault::Statement)? {
            StatementShape::Query => {
                if body.as_ref().is_some_and(|body| !body.chunks.is_empty()) {
                    return Err(EndpointFault::BadRequest(
                        "Only an INSERT takes data in the body".to_owned(),
                    ));
                }
                (sql, self.format, StatementKind::Query(self.params))
            }
            StatementShape::InsertSelect { sql } => {
                let bytes = body.take().map(StatementBody::into_bytes).unwrap_or_default();
                self.params.push((BODY_PARAM.to_owned(), STANDARD.encode(bytes)));
                (sql, self.format, StatementKind::Query(self.params))
            }
            StatementShape::Insert { sql, format } => {
                let chunks = body
                    .as_mut()
                    .map(|body| std::mem::take(&mut body.chunks))
                    .unwrap_or_default();
                (sql, format, StatementKind::Insert(chunks))
            }
        };
        // The emptied body keeps its share of the budget until the statement is done.
        Ok((
            Statement {
                database: self.database,
                settings: self.settings,
                sql,
                format,
                kind,
            },
            body,
        ))
    }
}
