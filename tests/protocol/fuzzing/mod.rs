//! The checks of the fuzz targets, on drawn inputs and on the corpus.

mod corpus;
mod listings;
mod records;
