"""What Belljar is measured against: each starts Python its own way, with the same interpreter and packages."""
