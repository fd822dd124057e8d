"""What goes on in a workspace, and what needs somebody."""
