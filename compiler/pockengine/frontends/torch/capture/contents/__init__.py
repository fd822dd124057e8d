"""What a module does by the contents of tensors, which a program of static shapes cannot follow: it goes the example's
way, and `conditions` make the outputs NaN where the data would have gone another."""
