"""What is read: corpora, labelled pairs, pictures, sounds, and tokens that a person names."""
