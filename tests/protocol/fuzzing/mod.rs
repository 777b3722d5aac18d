//! The checks of the fuzz targets, on generated inputs and on the corpus.

mod corpus;
mod listings;
mod records;
