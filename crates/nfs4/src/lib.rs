//! NFSv4.1 and 4.2 wire types, attributes, bitmaps and filehandles.
