//! A parsed Markdown page: its blocks, its inline code, its links and its headings.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

pub struct Page {
    /// Path of the page relative to the root of the repository.
    pub path: PathBuf,
    pub blocks: Vec<Block>,
    pub spans: Vec<At<String>>,
    pub links: Vec<At<String>>,
    pub headings: Vec<String>,
    /// Inline code in the first cells of the rows of tables.
    pub first_cells: Vec<String>,
}

pub struct At<T> {
    pub line: usize,
    pub it: T,
}

pub struct Block {
    pub line: usize,
    /// The text after the opening backticks of the block, such as `console`.
    pub tag: String,
    pub text: String,
    pub not_run: Option<String>,
    #[cfg_attr(not(feature = "s3"), allow(dead_code, reason = "sessions of pages read it"))]
    /// True if the page has no text between the previous block and this block.
    pub follows: bool,
}

impl Block {
    /// Returns the first word of the tag, which is the language of the block.
    pub fn word(&self) -> &str {
        self.tag.split([',', ' ']).next().unwrap_or_default()
    }
}

/// An element before a block. A block can refer to the element directly before it.
enum Before {
    Block,
    Reason(String),
    Other,
}

/// Returns the root folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the package is in a folder of the repository")
}

/// Returns all Markdown pages of the repository.
pub fn pages() -> Vec<Page> {
    let mut paths = Vec::new();
    find(root(), &mut paths);
    paths.sort();
    assert!(paths.len() > 10, "found only {paths:?}");
    paths.into_iter().map(Page::read).collect()
}

fn find(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                find(&path, paths);
            }
        } else if name.ends_with(".md") {
            paths.push(path.strip_prefix(root()).expect("the page is below the root").to_owned());
        }
    }
}

impl Page {
    pub fn read(path: PathBuf) -> Page {
        let text = fs::read_to_string(root().join(&path)).expect("a page can be read");
        Page::parse(path, &text)
    }

    pub fn parse(path: impl Into<PathBuf>, text: &str) -> Page {
        let mut page = Page {
            path: path.into(),
            blocks: Vec::new(),
            spans: Vec::new(),
            links: Vec::new(),
            headings: Vec::new(),
            first_cells: Vec::new(),
        };
        let line_of = |offset: usize| text[..offset].matches('\n').count() + 1;
        let mut heading = None::<String>;
        let mut before = Before::Other;
        let mut in_block = false;
        let mut in_first_cell = false;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = line_of(range.start);
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let tag = match kind {
                        CodeBlockKind::Fenced(tag) => tag.trim().to_owned(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    let follows = matches!(before, Before::Block);
                    let not_run = match std::mem::replace(&mut before, Before::Block) {
                        Before::Reason(reason) => Some(reason),
                        _ => None,
                    };
                    in_block = true;
                    page.blocks.push(Block { line, tag, text: String::new(), not_run, follows });
                }
                Event::End(TagEnd::CodeBlock) => in_block = false,
                Event::Text(text) if in_block => {
                    page.blocks.last_mut().expect("a block has begun").text.push_str(&text);
                }
                Event::Html(html) => {
                    let reason = html.trim().strip_prefix("<!-- not run:");
                    let reason = reason.and_then(|rest| rest.strip_suffix("-->"));
                    if let Some(reason) = reason {
                        before = Before::Reason(reason.trim().to_owned());
                    }
                }
                Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
                Event::Start(Tag::Heading { .. }) => {
                    heading = Some(String::new());
                    before = Before::Other;
                }
                Event::End(TagEnd::Heading(_)) => page.headings.extend(heading.take()),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(At { line, it: dest_url.to_string() });
                }
                Event::Start(Tag::TableRow) => in_first_cell = true,
                Event::End(TagEnd::TableCell) => in_first_cell = false,
                Event::Code(code) => {
                    if in_first_cell {
                        page.first_cells.push(code.to_string());
                    }
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    page.spans.push(At { line, it: code.to_string() });
                }
                Event::Text(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Start(_) => before = Before::Other,
                _ => {}
            }
        }
        page
    }

    /// Returns whether a heading has this anchor on GitHub. The second heading with the same text
    /// gets the suffix `-1`, the third `-2`.
    pub fn has(&self, anchor: &str) -> bool {
        let mut seen = BTreeMap::<String, usize>::new();
        self.headings.iter().any(|heading| {
            let slug = slug(heading);
            let times = seen.entry(slug.clone()).or_default();
            *times += 1;
            match *times {
                1 => slug == anchor,
                more => format!("{slug}-{}", more - 1) == anchor,
            }
        })
    }

    /// Formats a line number of this page for error messages.
    pub fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

/// Returns the anchor of a heading, in the form of GitHub.
fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
