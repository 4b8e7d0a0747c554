"""A turn, from the user's words to the model's answer, however full the window gets."""
