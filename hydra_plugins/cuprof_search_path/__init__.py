"""Put the configuration of the user's project in front of cuprof's own, and that of installed packages behind it."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.plugins.search_path_plugin import SearchPathPlugin


class ProjectSearchPath(SearchPathPlugin):
    """Add the project's conf/ to the search path of cuprof's applications, and of no other Hydra application."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Prepend the folder when the application's own configuration is cuprof's."""
        from cuprof.core.plugins import list_plugins
        from cuprof.core.project import bundled, find_project
        from cuprof.search.registry import STRATEGIES, list_strategies

        main = next((entry for entry in search_path.get_path() if entry.provider == "main"), None)
        if main is None or main.path != str(bundled("conf")):
            return
        for folder in reversed(find_project().conf_folders[:-1]):
            search_path.prepend("project", f"file://{folder}", anchor="main")
        for name in list_strategies():
            if name not in STRATEGIES:  # search=NAME works without a file
                ConfigStore.instance().store(name, {"defaults": ["none", "_self_"], "name": name}, group="search")
        for name in list_plugins("cuprof.launchers"):
            ConfigStore.instance().store(name, {"defaults": ["local", "_self_"], "name": name}, group="launch")
