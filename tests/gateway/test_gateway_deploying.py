"""What is there to copy holds together: files that are named exist, options are known, the plugin loads."""

import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from command_line import call
from stores import redis_server
from talks import counting

DEPLOY = Path(__file__).parents[2] / "deploy"
KEYS = ("CHEAP_API_KEY", "STRONG_API_KEY", "TACIT_CLIENT_KEYS", "TACIT_ADMIN_KEY")


def test_the_file_of_options_is_one_that_serve_takes(tmp_path, tmp_path_factory, monkeypatch):
    for name in KEYS:
        monkeypatch.setenv(name, f"key-for-{name.lower()}")
    counting().save(tmp_path / "router.json")
    text = (DEPLOY / "tacit.toml").read_text()
    with redis_server(tmp_path_factory.mktemp("r")) as redis:
        text = text.replace("redis://redis:6379/0", redis.url).replace("/log/", f"{tmp_path}/")
        (tmp_path / "tacit.toml").write_text(text)
        done = call("serve", "--config", "tacit.toml", "--check", cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_compose_files_name_what_is_there():
    options = tomllib.loads((DEPLOY / "tacit.toml").read_text())
    content = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    gateway = content["services"]["gateway"]
    assert (DEPLOY / gateway["build"]["context"] / gateway["build"]["dockerfile"]).is_file()
    assert set(gateway["environment"]) == {value for key, value in options.items() if "key" in key} == set(KEYS)
    assert options["state"].split("/")[2].split(":")[0] in content["services"]
    assert float(gateway["stop_grace_period"].rstrip("s")) > options["drain"]
    assert gateway["ports"][0].endswith(str(options["port"]))
    recipe = (DEPLOY / "Dockerfile").read_text()
    for line in recipe.splitlines():
        if line.startswith("COPY") and "--from" not in line:
            assert all((DEPLOY.parent / name).exists() for name in line.split()[1:-1])
    proxy = yaml.safe_load((DEPLOY / "litellm" / "config.yaml").read_text())
    assert [one["model_name"] for one in proxy["model_list"]] == ["small", "large"]
    assert yaml.safe_load((DEPLOY / "litellm" / "compose.yaml").read_text())["services"]["proxy"]


def test_the_plugin_to_copy_loads(tmp_path, monkeypatch):
    pytest.importorskip("litellm")
    counting().save(tmp_path / "router.json")
    shutil.copy(DEPLOY / "litellm" / "plugin.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(Path("plugin.py").read_text(), names)
    assert names["tacit"].sessions.engine.router == counting()
