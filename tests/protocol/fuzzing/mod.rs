//! Runs the fuzz targets' checks on generated inputs and on the corpus.

mod corpus;
mod listings;
mod records;
