"""The file of credentials: only its owner reads it, and no key is given for another address than its own."""

import os
import stat
from pathlib import Path

import pytest

from pock_client import CredentialsError
from pock_client.credentials import Credentials, address, checked, find, forget, load, path, save

HOME = Credentials("https://pock.example/base", "pk_home_secret")
WORK = Credentials("http://127.0.0.1:8080", "pk_work_secret")


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone who has not signed in anywhere."""
    for name in ("POCK_URL", "POCK_KEY", "POCK_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_what_was_saved_is_found_by_profile() -> None:
    save("default", HOME)
    save("work", WORK)
    assert (find(), find(profile="work")) == (HOME, WORK)
    assert load() == {"default": HOME, "work": WORK}


def test_nobody_else_can_read_the_file_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        save("default", HOME)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path().stat().st_mode) == 0o600
    assert stat.S_IMODE(path().parent.stat().st_mode) == 0o700
    assert [file.name for file in path().parent.iterdir()] == ["credentials.toml"]


def test_a_file_that_others_can_read_is_not_used() -> None:
    save("default", HOME)
    path().chmod(0o644)
    with pytest.raises(CredentialsError, match=r"others can read the keys in .*chmod 600"):
        find()


def test_a_link_in_place_of_the_file_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    save("default", HOME)
    other = tmp_path / "other"
    path().rename(other)
    path().symlink_to(other)
    before = other.read_text()
    save("default", WORK)
    assert other.read_text() == before and not path().is_symlink() and find() == WORK


def test_forgetting_leaves_the_others() -> None:
    save("default", HOME)
    save("work", WORK)
    assert forget("default") and not forget("default")
    assert load() == {"work": WORK}


def test_the_environment_comes_before_the_file_and_a_named_profile_before_both(monkeypatch) -> None:
    save("default", HOME)
    save("work", WORK)
    monkeypatch.setenv("POCK_PROFILE", "work")
    assert find() == WORK
    monkeypatch.setenv("POCK_URL", "http://elsewhere:1/")
    monkeypatch.setenv("POCK_KEY", "pk_e")
    assert find() == Credentials("http://elsewhere:1", "pk_e")
    assert find(profile="default") == HOME
    assert find("http://given", "pk_g") == Credentials("http://given", "pk_g")


def test_a_key_is_given_for_no_other_address(monkeypatch) -> None:
    save("default", HOME)
    with pytest.raises(CredentialsError, match="no key is known for https://evil.example"):
        find("https://evil.example")
    monkeypatch.setenv("POCK_URL", "https://pock.example/base/")
    assert find() == HOME


@pytest.mark.parametrize("profile", ["", "a b", "../x", "-x", "ä", "[x]", "x" * 65])
def test_names_of_profiles_are_plain(profile: str) -> None:
    with pytest.raises(CredentialsError, match="no name of a profile"):
        save(profile, HOME)


@pytest.mark.parametrize(
    "url",
    ["pock.example", "ftp://x", "https://", "http://x y", "http://x/?a=1", "http://x#a", "http://x:99999", "http://[x"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(CredentialsError, match="no address of a service"):
        address(url)


def test_an_address_has_no_password_and_neither_is_repeated() -> None:
    with pytest.raises(CredentialsError) as refused:
        address("https://me:secret@pock.example")
    assert "secret" not in str(refused.value)
    with pytest.raises(CredentialsError) as refused:
        checked("https://pock.example", "pk secret")
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(HOME)


@pytest.mark.parametrize("text", ["no toml", "default = 3", "[default]\nurl = 'http://x'", "\xff"])
def test_a_damaged_file_is_a_sentence(text: str) -> None:
    path().parent.mkdir(parents=True)
    path().write_text(text, encoding="latin-1")
    path().chmod(0o600)
    with pytest.raises(CredentialsError, match=r"is damaged.*sign in again"):
        find()


def test_without_anything_it_says_how_to_sign_in() -> None:
    with pytest.raises(CredentialsError, match="no address of a service is known; sign in"):
        find()
    with pytest.raises(CredentialsError, match="there is no profile 'work'"):
        find(profile="work")
