"""What is trained to be compared: our compiled step (`ours`), a file by itself (`file`), and a framework's model
(`torch`, `jax`, `keras`). Open `side` first: what a framework has to give. `torch_*` train for all frameworks."""
