//! The corpus: documents with stable ids, and the expected values of each.

mod documents;
mod image;
mod lines;
mod references;
mod refusal;

pub use image::{Image, ImageFormat};
pub use refusal::{CorpusErrors, Refusal};

use super::problem::shown;
use super::{CorpusSource, Protocol, QualityRule, Reference, WarmUp};
use refusal::Refusals;

/// Documents in the order in which they are sent; their ids are distinct.
#[derive(Debug, Clone, PartialEq)]
pub struct Corpus {
    /// At least one.
    pub documents: Vec<Document>,
}

/// One input.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Stable name: 1 to 512 bytes, no control characters.
    pub id: String,
    /// What replaces `{{text}}`; empty only beside images.
    pub text: String,
    /// Images that go with it, in order.
    pub images: Vec<Image>,
    /// Expected values of the rule's fields, in the rule's order; at least one is checked.
    pub reference: Reference,
}

/// Reads the documents and their references, and refuses what cannot be measured, all at once.
pub fn load(source: &CorpusSource, rule: &QualityRule) -> Result<Corpus, CorpusErrors> {
    let mut refusals = Refusals::default();
    let found = documents::read(&source.documents, &mut refusals);
    let mut references = references::read(&source.references, rule, &mut refusals);

    if let Some(expect) = source.expect
        && found.count != expect
        && found.complete
    {
        let message = format!("has {} documents; the protocol expects {expect} (corpus.expect)", found.count);
        refusals.add(&source.documents, None, message);
    } else if found.count == 0 && found.complete {
        refusals.add(&source.documents, None, "has no documents");
    }

    let mut documents = Vec::with_capacity(found.documents.len());
    for mut document in found.documents {
        match references.of.shift_remove(&document.id) {
            Some(found) => document.reference = found.reference,
            None if references.complete => {}
            None => continue,
        }
        if references::checks_nothing(&document.reference, rule) {
            let message =
                format!("document {} has no reference value for any field of the rule", shown(&document.id));
            refusals.add(&source.references, None, message);
        }
        documents.push(document);
    }
    // A document that was refused takes its reference with it; only a whole list shows which are strangers.
    if found.complete && !found.refused {
        for (id, stranger) in &references.of {
            let message = format!("reference for {}, which is not the id of a document", shown(id));
            refusals.add(&source.references, Some(stranger.line), message);
        }
    }
    refusals.finish(Corpus { documents })
}

impl Protocol {
    /// Reads the corpus of this protocol and refuses one that is smaller than the warm-up it asks for.
    pub fn load_corpus(&self) -> Result<Corpus, CorpusErrors> {
        let corpus = load(&self.corpus, &self.quality)?;
        let mut refusals = Refusals::default();
        if let WarmUp::Documents(asked) = self.measure.warm_up
            && asked > corpus.documents.len()
        {
            let count = corpus.documents.len();
            let message =
                format!("has {count} documents; measure.warm_up.documents asks for {asked} of them");
            refusals.add(&self.corpus.documents, None, message);
        }
        refusals.finish(corpus)
    }
}
