//! A node of Morling's post.
