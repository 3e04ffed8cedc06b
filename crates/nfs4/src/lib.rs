//! NFSv4.1 and 4.2 wire types, attributes, bitmaps and filehandles.

mod bitmap;
pub mod generated;

pub use bitmap::Bitmap4;
pub use generated::*;
