"""What a training needs to know, and rehearsals of it."""
