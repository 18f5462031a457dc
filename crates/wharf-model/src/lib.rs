//! The nouns of the Model Context Protocol and the Service seam of Wharf
#![forbid(unsafe_code)]
