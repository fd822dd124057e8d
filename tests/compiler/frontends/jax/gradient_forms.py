"""Ways in which a JAX function says that no gradient passes, or another one: each a few lines."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx
from jax.lax import stop_gradient

X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
X[3] = 0.0
WEIGHTS = {
    name: np.random.default_rng(index).standard_normal((6 if name == "codes" else 4, 4)).astype(np.float32)
    for index, name in enumerate(("first", "second", "codes"), 1)
}


@dataclass(frozen=True)
class Form:
    """build    -> (function, parameters)
    refused  what from_jax says instead of importing it; empty where it is to be right"""

    name: str
    build: Callable[[], tuple[Callable[..., Any], Any]]
    refused: str = ""


FORMS: list[Form] = []


def form(refused: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds an expression of the weights and of x."""

    def add(expression: Callable[..., Any]) -> Callable[..., Any]:
        FORMS.append(Form(expression.__name__, lambda: (expression, WEIGHTS), refused))
        return expression

    return add


def model(build: Callable[[], tuple[Callable[..., Any], Any]]) -> Callable[..., Any]:
    """Adds a model with parameters of its own."""
    FORMS.append(Form(build.__name__, build))
    return build


@jax.custom_vjp
def rounded(x: Any) -> Any:
    return jnp.round(x)


rounded.defvjp(lambda x: (rounded(x), x), lambda x, g: (g * jnp.where(jnp.abs(x) < 1, 1.0, 0.1),))


@form()
def an_activation(w: Any, x: Any) -> Any:
    return jnp.tanh(stop_gradient(x @ w["first"])) @ w["second"] + x @ w["first"]


@form()
def a_parameter(w: Any, x: Any) -> Any:
    return jnp.tanh(x @ stop_gradient(w["first"])) @ w["second"]


@form()
def all_parameters_of_a_target_network(w: Any, x: Any) -> Any:
    target = stop_gradient(w)
    return (jnp.tanh(x @ w["first"]) @ w["second"] - x @ target["first"] @ target["second"]) ** 2


@form()
def rounding_straight_through(w: Any, x: Any) -> Any:
    y = x @ w["first"]
    return (y + stop_gradient(jnp.round(y * 4) / 4 - y)) ** 2


@form()
def binary_weights_straight_through(w: Any, x: Any) -> Any:
    return x @ (w["first"] + stop_gradient(jnp.sign(w["first"]) - w["first"]))


@form()
def one_hot_of_the_greatest_straight_through(w: Any, x: Any) -> Any:
    soft = jax.nn.softmax(x @ w["first"])
    hard = jax.nn.one_hot(jnp.argmax(soft, -1), 4)
    return (hard + soft - stop_gradient(soft)) @ w["second"]


@form()
def rounding_without_a_rule(w: Any, x: Any) -> Any:
    return jnp.round(x @ w["first"]) + x @ w["second"]


@form()
def a_codebook(w: Any, x: Any) -> Any:
    """VQ-VAE: straight through, codebook loss, commitment."""
    z = x @ w["first"]
    nearest = jnp.argmin(((z[:, None] - w["codes"][None]) ** 2).sum(-1), -1)
    q = w["codes"][nearest]
    loss = ((stop_gradient(z) - q) ** 2).mean() + 0.25 * ((z - stop_gradient(q)) ** 2).mean()
    return (z + stop_gradient(q - z)) @ w["second"] + loss


@form()
def in_the_steps_of_a_scan(w: Any, x: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = jnp.tanh(stop_gradient(h) @ w["first"] + rounded(row @ w["second"]))
        return h, h

    return jax.lax.scan(step, jnp.zeros(4), x)[1]


@form()
def under_vmap_jit_and_checkpoint(w: Any, x: Any) -> Any:
    @jax.checkpoint
    @jax.jit
    def row(v: Any) -> Any:
        return rounded(v @ w["first"]) + stop_gradient(v @ w["first"]) * (v @ w["second"])

    return jax.vmap(row)(x)


@form()
def custom_vjp_clipped_straight_through(w: Any, x: Any) -> Any:
    return rounded(rounded(x @ w["first"]) @ w["second"])


@form()
def custom_vjp_reversing_its_gradient(w: Any, x: Any) -> Any:
    @jax.custom_vjp
    def reversed_gradient(x: Any) -> Any:
        return x

    reversed_gradient.defvjp(lambda x: (x, None), lambda _, g: (-g,))
    return reversed_gradient(jnp.tanh(x @ w["first"])) @ w["second"]


@form()
def custom_vjp_with_a_static_argument(w: Any, x: Any) -> Any:
    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def scaled(x: Any, share: float) -> Any:
        return x

    scaled.defvjp(lambda x, share: (x, None), lambda share, _, g: (share * g,))
    return scaled(jnp.tanh(x @ w["first"]), 0.25) @ w["second"]


@form()
def custom_vjp_of_floats_and_integers(w: Any, x: Any) -> Any:
    @jax.custom_vjp
    def chosen(x: Any, y: Any, i: Any) -> Any:
        return jnp.where(i > 1, x * y, x), jnp.argmax(x, -1)

    def back(saved: Any, g: Any) -> Any:
        x, y, i = saved
        return 3 * g[0] * y, jnp.where(i > 1, g[0] * x, 0.5 * g[0]), None

    chosen.defvjp(lambda x, y, i: (chosen(x, y, i), (x, y, i)), back)
    values, places = chosen(x @ w["first"], x @ w["second"], jnp.arange(4))
    return values + places[:, None]


@form("the function 'clipped' .gradient_forms.py:.* by jax.custom_vjp that cannot be imported")
def custom_vjp_that_is_not_linear(w: Any, x: Any) -> Any:
    @jax.custom_vjp
    def clipped(x: Any) -> Any:
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.1, 0.1),))
    return clipped(x @ w["first"])


@form("the function 'pulled' .gradient_forms.py:.* .it adds something to the gradient that arrives.")
def custom_vjp_that_adds_to_its_gradient(w: Any, x: Any) -> Any:
    @jax.custom_vjp
    def pulled(x: Any) -> Any:
        return x

    pulled.defvjp(lambda x: (x, x), lambda x, g: (g + 0.1 * jnp.sign(x),))
    return pulled(x @ w["first"])


@form("the function 'product' .* write a rule that is linear .* and reads its arguments alone")
def custom_vjp_of_what_is_no_argument(w: Any, x: Any) -> Any:
    @jax.custom_vjp
    def product(x: Any) -> Any:
        return x @ w["second"]

    product.defvjp(lambda x: (product(x), None), lambda _, g: (g,))
    return product(x @ w["first"])


@form()
def custom_jvp_of_a_norm_at_zero(w: Any, x: Any) -> Any:
    @jax.custom_jvp
    def norm(x: Any) -> Any:
        return jnp.sqrt((x * x).sum(-1, keepdims=True))

    @norm.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        n = norm(x)
        return n, (x * t).sum(-1, keepdims=True) / jnp.where(n == 0, 1, n)

    y = x @ w["first"]
    return y * norm(y)


@form()
def custom_jvp_by_argument(w: Any, x: Any) -> Any:
    @jax.custom_jvp
    def product(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y

    product.defjvps(lambda t, out, x, y: 2 * t * y, None)
    return product(x @ w["first"], x @ w["second"])


@form()
def custom_jvps_of_libraries(w: Any, x: Any) -> Any:
    y = x @ w["first"]
    activations = (jax.nn.relu, jax.nn.relu6, jax.nn.silu, jax.nn.softplus, linen.log_softmax, jnp.sinc)
    return sum(function(y) for function in activations) + jax.scipy.special.logsumexp(y, -1, keepdims=True)


@form()
def derivatives_of_the_output(w: Any, x: Any) -> Any:
    """A physics-informed net: the Laplacian of its output."""

    def net(v: Any) -> Any:
        return (jnp.tanh(jnp.tanh(v @ w["first"]) @ w["second"])).sum()

    return jax.vmap(lambda v: jnp.trace(jax.hessian(net)(v)) + jax.grad(net)(v))(x)


@model
def derivatives_of_a_flax_module() -> tuple[Callable[..., Any], Any]:
    module = linen.Sequential([linen.Dense(8), linen.tanh, linen.Dense(1)])

    def function(variables: Any, x: Any) -> Any:
        return jax.vmap(jax.grad(lambda v: module.apply(variables, v)[0] ** 2))(x)

    return function, module.init(jax.random.key(1), X)


@model
def within_a_flax_module() -> tuple[Callable[..., Any], Any]:
    class Two(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            kept = linen.Dense(4)(x)
            return linen.Dense(3)(linen.relu(stop_gradient(kept))) + kept[:, :3]

    return Two().apply, Two().init(jax.random.key(2), X)


@model
def flax_spectral_norm() -> tuple[Callable[..., Any], Any]:
    class Normed(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return linen.SpectralNorm(linen.Dense(4))(x, update_stats=False)

    return Normed().apply, Normed().init(jax.random.key(3), X)


@model
def within_an_nnx_module_that_holds_random_keys() -> tuple[Callable[..., Any], Any]:
    class Two(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.first, self.second = nnx.Linear(4, 4, rngs=rngs), nnx.Linear(4, 4, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.second(self.dropout(stop_gradient(nnx.silu(self.first(x))))) + self.first(x)

    module = Two(nnx.Rngs(4))
    module.eval()
    definition, state = nnx.split(module)
    return lambda state, x: nnx.merge(definition, state)(x), state


@model
def within_an_equinox_module_that_holds_functions() -> tuple[Callable[..., Any], Any]:
    import equinox

    class Two(equinox.Module):
        first: equinox.nn.Linear
        second: equinox.nn.Linear
        activation: Callable[..., Any]

        def __call__(self, x: Any) -> Any:
            return self.second(stop_gradient(self.activation(self.first(x)))) + self.first(x)

    keys = jax.random.split(jax.random.key(5))
    two = Two(equinox.nn.Linear(4, 4, key=keys[0]), equinox.nn.Linear(4, 4, key=keys[1]), jnp.tanh)
    return lambda module, x: jax.vmap(module)(x), two


@form("draws random numbers .'random_bits'., but what is trained is what inference computes")
def random_numbers(w: Any, x: Any) -> Any:
    return x @ w["first"] + jax.random.normal(jax.random.key(0), (5, 4))


@form("draws random numbers .'random_split'.")
def random_keys(w: Any, x: Any) -> Any:
    return x @ w["first"] * jax.random.bernoulli(jax.random.split(jax.random.key(0))[0], 0.5, (5, 4))


@form("dropout in training mode")
def dropout_of_flax_in_training(w: Any, x: Any) -> Any:
    dropout = linen.Dropout(0.5, deterministic=False)
    return dropout.apply({}, x @ w["first"], rngs={"dropout": jax.random.key(0)})


def batch_norm_of_flax_in_training() -> tuple[Callable[..., Any], Any]:
    norm = linen.BatchNorm(use_running_average=False)
    return lambda variables, x: norm.apply(variables, x, mutable=["batch_stats"])[0], norm.init(jax.random.key(6), X)


FORMS.append(
    Form(
        "batch_norm_of_flax_in_training",
        batch_norm_of_flax_in_training,
        "what JAX exports is not what it computes: the output 'output' is off by .* without statistics of the batch",
    )
)
