"""`%%ranks 4`: a cell on several processes that stay, and what they did beside one another."""
