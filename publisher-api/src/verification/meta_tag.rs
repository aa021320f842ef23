//! `<meta name="service-verification" content="<token>">` in the head of the home page, read as a
//! browser reads it (HTML Living Standard, 13.2): comments, scripts, templates and the body don't
//! count, and where the head ends is the parser's word.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use accounts::{Domain, TOKEN_PREFIX};
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{Attribute, ExpandedName, ParseOpts, QualName, expanded_name, local_name, ns, parse_document};
use outbound::OutboundClient;
use service::cpu::CpuPool;

use super::{FOUND_MAX, Look, ProofOutcome, Record};

/// The longest home page, in bytes.
const BYTES_MAX: usize = 1 << 20;
/// Bytes that the parser gets at a time: it stops at the first piece that begins the body.
const PIECE_BYTES: usize = 4 << 10;
/// Bytes that may come to nothing: the parser compares each attribute of a tag with all before it,
/// so a tag mustn't be as long as a page.
const BARREN_BYTES_MAX: usize = 64 << 10;
/// Time for one page, on a thread that others wait for.
const READ_MAX: Duration = Duration::from_millis(250);
const NAME: &str = "service-verification";

fn url(domain: &str) -> String {
    format!("https://{domain}/")
}

pub(super) fn record(domain: &str, token: &str) -> Record {
    let bare = token.strip_prefix(TOKEN_PREFIX).unwrap_or(token);
    Record {
        name: url(domain),
        r#type: "meta".to_owned(),
        value: format!(r#"<meta name="{NAME}" content="{bare}">"#),
        ttl: None,
    }
}

pub(super) async fn look(client: &OutboundClient, pages: &CpuPool, domain: &Domain) -> Look {
    let url = url(domain.as_str());
    let page = match super::fetch(client, domain, &url, BYTES_MAX).await {
        Ok(fetched) => fetched.body,
        Err(error) => return Look::failed(&error, "serve your home page over HTTPS with status 200"),
    };
    let read = move || {
        let begun = Instant::now();
        tokens(&page, || begun.elapsed() > READ_MAX)
    };
    match pages.run(read).await {
        Ok(tokens) if tokens.is_empty() => {
            let advice = format!(
                "put <meta name=\"{NAME}\" content=\"...\"> into the head of the page at {url}, near its beginning, not into its \
                 body"
            );
            Look::without_tokens(ProofOutcome::NoToken, Vec::new(), advice)
        }
        Ok(tokens) => Look::of_tokens(tokens),
        Err(error) => Look::without_tokens(
            ProofOutcome::Unreachable,
            vec![error.to_string()],
            "try again in a minute",
        ),
    }
}

/// The contents of the tags, in order, without the prefix that some write there too. What comes
/// after `is_late` isn't read, nor what comes after [`BARREN_BYTES_MAX`] of one tag or comment.
fn tokens(page: &[u8], is_late: impl Fn() -> bool) -> Vec<String> {
    let mut parser = parse_document(TagSink::default(), ParseOpts::default()).from_utf8();
    let mut barren_bytes = 0;
    for piece in page.chunks(PIECE_BYTES) {
        parser.process(piece.into());
        let head = &parser.inner_sink.tokenizer.sink.sink;
        barren_bytes = match head.grown.take() {
            true => 0,
            false => barren_bytes + piece.len(),
        };
        if head.body_begun.get() || barren_bytes >= BARREN_BYTES_MAX || is_late() {
            break;
        }
    }
    parser.finish()
}

/// Sink of the parser: no tree, only the tags that are searched for.
#[derive(Default)]
struct TagSink {
    body_begun: Cell<bool>,
    /// Whether anything was built since this was last asked.
    grown: Cell<bool>,
    tokens: RefCell<Vec<String>>,
}

/// An element, or any other node, whose name is empty.
struct HtmlNode {
    name: QualName,
    /// The `content` of a tag that is searched for.
    content: Option<String>,
}

impl TagSink {
    fn nameless() -> Rc<HtmlNode> {
        Rc::new(HtmlNode {
            name: QualName::new(None, ns!(), local_name!("")),
            content: None,
        })
    }
}

impl TreeSink for TagSink {
    type Handle = Rc<HtmlNode>;
    type Output = Vec<String>;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Vec<String> {
        self.tokens.into_inner()
    }

    fn get_document(&self) -> Rc<HtmlNode> {
        Self::nameless()
    }

    fn elem_name<'a>(&'a self, target: &'a Rc<HtmlNode>) -> ExpandedName<'a> {
        target.name.expanded()
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, _: ElementFlags) -> Rc<HtmlNode> {
        self.grown.set(true);
        if matches!(
            name.expanded(),
            expanded_name!(html "body") | expanded_name!(html "frameset")
        ) {
            self.body_begun.set(true);
        }
        let value = |wanted: &str| {
            attrs
                .iter()
                .find(|attr| &*attr.name.local == wanted)
                .map(|attr| &*attr.value)
        };
        let ours = name.expanded() == expanded_name!(html "meta")
            && value("name").is_some_and(|name| name.trim().eq_ignore_ascii_case(NAME));
        let content = value("content").filter(|_| ours).map(|content| {
            let content = content.trim();
            content.strip_prefix(TOKEN_PREFIX).unwrap_or(content).to_owned()
        });
        Rc::new(HtmlNode { name, content })
    }

    fn append(&self, parent: &Rc<HtmlNode>, child: NodeOrText<Rc<HtmlNode>>) {
        self.grown.set(true);
        let NodeOrText::AppendNode(child) = child else {
            return;
        };
        let in_head = parent.name.expanded() == expanded_name!(html "head");
        let mut tokens = self.tokens.borrow_mut();
        if let Some(content) = child.content.as_ref().filter(|_| in_head && tokens.len() < FOUND_MAX) {
            tokens.push(content.clone());
        }
    }

    /// A template's contents are no part of the page.
    fn get_template_contents(&self, _: &Rc<HtmlNode>) -> Rc<HtmlNode> {
        Self::nameless()
    }

    fn same_node(&self, x: &Rc<HtmlNode>, y: &Rc<HtmlNode>) -> bool {
        Rc::ptr_eq(x, y)
    }

    fn create_comment(&self, _: StrTendril) -> Rc<HtmlNode> {
        Self::nameless()
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Rc<HtmlNode> {
        Self::nameless()
    }

    fn append_before_sibling(&self, _: &Rc<HtmlNode>, _: NodeOrText<Rc<HtmlNode>>) {}
    fn append_based_on_parent_node(&self, _: &Rc<HtmlNode>, _: &Rc<HtmlNode>, _: NodeOrText<Rc<HtmlNode>>) {}
    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}
    fn add_attrs_if_missing(&self, _: &Rc<HtmlNode>, _: Vec<Attribute>) {}
    fn remove_from_parent(&self, _: &Rc<HtmlNode>) {}
    fn reparent_children(&self, _: &Rc<HtmlNode>, _: &Rc<HtmlNode>) {}
    fn parse_error(&self, _: Cow<'static, str>) {}
    fn set_quirks_mode(&self, _: QuirksMode) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(page: &str) -> Vec<String> {
        tokens(page.as_bytes(), || false)
    }

    const META: &str = r#"<meta name="service-verification" content="abc">"#;

    #[test]
    fn the_tag_we_ask_for_is_found_however_it_is_written() {
        assert_eq!(record("example.com", "service-verification=abc").value, META);
        for page in [
            format!("<!doctype html><html><head><title>x</title>{META}</head><body></body></html>"),
            META.to_owned(),
            format!("<!-- a comment -->\n<HTML lang=en><HEAD>{META}"),
            "<head><META CONTENT='abc' NAME='Service-Verification'/>".to_owned(),
            "<head><meta\n content=abc\n name=service-verification\n>".to_owned(),
            r#"<head><meta content=" service-verification=abc " name="service-verification">"#.to_owned(),
            r#"<head><meta name="service-verification" content="&#97;bc">"#.to_owned(),
            format!("<head><script>if (a < b) {{}}</script><style>p {{}}</style><link rel=x>{META}"),
            format!("<html></head>{META}<body>"),
            format!("{}<head>{META}", "<!-- -->".repeat(2_000)),
        ] {
            assert_eq!(of(&page), ["abc"], "{}", &page[..page.len().min(200)]);
        }
    }

    #[test]
    fn elsewhere_it_doesnt_count() {
        for page in [
            format!("<html><head></head><body>{META}</body></html>"),
            format!("<p>text before{META}"),
            format!("<head><!-- {META} --></head>"),
            format!("<head><script>document.write('{META}')</script></head>"),
            format!("<head><style>{META}</style></head>"),
            format!("<head><title>{META}</title></head>"),
            format!("<head><noscript>{META}</noscript></head>"),
            format!("<head><template>{META}</template></head>"),
            format!("<svg>{META}</svg>"),
            format!("<body><head>{META}</head>"),
            r#"<head><meta property="service-verification" content="abc">"#.to_owned(),
            r#"<head><meta name="service-verification">"#.to_owned(),
            r#"<head><meta name="xservice-verification" content="abc">"#.to_owned(),
            format!("<head><textarea>{META}"),
            String::new(),
        ] {
            assert_eq!(of(&page), [""; 0], "{page}");
        }
    }

    #[test]
    fn several_tags_are_all_seen_and_bounded() {
        let tag = |token: usize| format!(r#"<meta name="service-verification" content="{token}">"#);
        assert_eq!(of(&format!("<head>{}{}", tag(1), tag(2))), ["1", "2"]);
        let many: String = (0..1_000).map(tag).collect();
        assert_eq!(of(&many).len(), FOUND_MAX);
    }

    /// Work of the parser grows with the page alone, and a body isn't read at all.
    #[test]
    fn hostile_pages_are_read() {
        for page in [
            "<head>".repeat(100_000),
            "<b><a>".repeat(100_000),
            "<template>".repeat(20_000),
            "<meta ".to_owned() + &"a=b ".repeat(200_000),
            "<meta ".to_owned() + &(0..200_000).map(|n| format!("a{n} ")).collect::<String>(),
            "&".repeat(500_000),
        ] {
            assert_eq!(of(&page), [""; 0]);
        }
        assert_eq!(tokens(&[0xff; 100_000], || false), [""; 0]);
    }

    #[test]
    fn a_tag_as_long_as_a_page_ends_the_reading() {
        let attributes = |count: usize| (0..count).map(|n| format!(" a{n}=''")).collect::<String>();
        let with = |tag: &str| of(&format!("<head>{META}{tag}{META}"));
        assert_eq!(with(&format!("<link {}>", attributes(1_000))), ["abc", "abc"]);
        assert_eq!(with(&format!("<link {}>", attributes(100_000))), ["abc"]);
        assert_eq!(with(&format!("<link x='>'{}>", attributes(100_000))), ["abc"]);
        let script = format!("<script>'{}'</script>", "< ".repeat(100_000));
        assert_eq!(with(&script), ["abc", "abc"], "a long script is no tag");
    }

    #[test]
    fn what_comes_after_the_time_isnt_read() {
        let page = format!("<head>{META}<title>{}</title>{META}", "x".repeat(2 * PIECE_BYTES));
        assert_eq!(of(&page), ["abc", "abc"]);
        assert_eq!(tokens(page.as_bytes(), || true), ["abc"]);
    }
}
