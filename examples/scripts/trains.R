# R, a line for each epoch: 40 s or so.
scale <- as.numeric(Sys.getenv("EXAMPLE_SCALE", "1"))
epochs <- max(5, round(400 * scale))
set.seed(1)
x <- matrix(rnorm(4000 * 50), 4000)
y <- x %*% rnorm(50) + rnorm(4000)
weights <- rep(0, 50)
for (epoch in seq_len(epochs)) {
  for (i in seq_len(nrow(x))) {
    error <- sum(x[i, ] * weights) - y[i]
    weights <- weights - 0.001 * error * x[i, ]
  }
  cat(sprintf("Epoch %d/%d, loss %.4f\n", epoch, epochs, mean((x %*% weights - y)^2)))
}
