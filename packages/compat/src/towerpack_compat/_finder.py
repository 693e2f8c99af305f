"""Import of `tensorpack` and all its modules, from the tables of names."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any, final

from ._errors import InstallError
from ._resolve import Gone, resolve
from .names import counterparts, module_names, own_names, star_modules, star_names

__all__ = ["VERSION", "TensorpackFinder"]

# Scripts compare the version; names and behaviour are those of this release.
VERSION = "0.11"
_ROOT = "tensorpack"


@final
class _Module(types.ModuleType):
    """A module of Tensorpack; its names are created at their first use."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        inside = self.__name__.removeprefix(_ROOT).removeprefix(".")
        if name == "__all__":
            return available(star_names(inside))
        value = self._found(inside, name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # `tensorpack.tfutils.argscope` is a function, although a module has the same name.
        if isinstance(value, _Module) and name in {*counterparts(), *own_names()}:
            return
        super().__setattr__(name, value)

    def _found(self, inside: str, name: str) -> Any:
        module = f"{inside}.{name}".removeprefix(".")
        if name == "tfv1" or module == "tf":
            return importlib.import_module("towerpack_compat.tensorflow1").tensorflow()
        if inside in _OWN_MODULES and module not in module_names():
            return getattr(importlib.import_module(_OWN_MODULES[inside]), name)
        try:
            return resolve(name)  # any public name: older releases of Tensorpack have it in other modules
        except KeyError:
            pass
        if not inside:
            module = {**star_modules(), "sessinit": "tfutils.sessinit"}.get(name, module)
        if module in module_names() or module in _OWN_MODULES:
            return importlib.import_module(f"{_ROOT}.{module}")
        if name in module_names().get(inside, ()):  # programs may import it, and use it nowhere
            return Gone(name, "#names")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


# Modules with names outside of the table.
_OWN_MODULES = {
    "compat": "towerpack_compat.tensorpack.compat",
    "utils.logger": "towerpack_compat.tensorpack.utils.logger",
    "libinfo": "towerpack_compat.tensorpack.compat",
}


def available(names: Sequence[str]) -> list[str]:
    """Returns the names that the installed packages support: without TensorFlow, only those of flows."""
    if importlib.util.find_spec("towerpack_trainers") is not None:
        return list(dict.fromkeys(names))
    of_zmq = () if importlib.util.find_spec("zmq") else module_names()["dataflow.remote"]
    flows = {*module_names()["dataflow"], "dataset", "imgaug", "logger"}.difference(of_zmq)
    return [name for name in dict.fromkeys(names) if name in flows]


@final
class TensorpackFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `tensorpack` and its modules, ahead of the path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in {"horovod", "horovod.tensorflow"}:  # it does not build with current TensorFlow
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        inside = fullname.removeprefix(_ROOT).removeprefix(".")
        if fullname != _ROOT and not fullname.startswith(f"{_ROOT}."):
            return None
        if inside and inside not in module_names() and inside not in _OWN_MODULES and inside != "contrib":
            return None
        # Each module is a package, so that Python does not search for its submodules elsewhere.
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        if spec.name.startswith("horovod"):  # the package itself is empty
            return importlib.import_module("towerpack_compat.horovod") if "." in spec.name else None
        module = _Module(spec.name, "A module of Tensorpack, by towerpack-compat.")
        if spec.name in (_ROOT, f"{_ROOT}.libinfo"):
            vars(module).update(__version__=VERSION, __git_version__=VERSION)
        return module

    def exec_module(self, module: types.ModuleType) -> None: ...


def refuse_the_real_one() -> None:
    """Raises an error if the real Tensorpack would be imported.

    Raises:
        InstallError: Tensorpack is installed, or already imported.
    """
    loaded = sys.modules.get(_ROOT)
    if loaded is not None and not isinstance(loaded, _Module):
        raise InstallError(
            f"tensorpack is already imported, from {loaded.__file__}. Call towerpack_compat.install() first, "
            "in an environment without tensorpack."
        )
    spec = importlib.machinery.PathFinder.find_spec(_ROOT)
    if spec is not None and spec.origin is not None:
        raise InstallError(
            f"tensorpack is installed at {spec.origin}, and towerpack-compat replaces it. Uninstall it: "
            "`pip uninstall tensorpack`; or run the script without towerpack-compat."
        )
