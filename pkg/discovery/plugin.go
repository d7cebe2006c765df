package discovery

import "path/filepath"

// A plugin is one that Claude Code has installed, in the folder
// plugins/cache/MARKET/NAME/VERSION.
type plugin struct {
	folder string // of the installed version
	name   string
	market string
	data   string // folder of the data of all plugins
}

// pluginOf returns the plugin that a file with servers belongs to.
func pluginOf(file string) plugin {
	folder := filepath.Dir(file)
	if filepath.Base(folder) == ".claude-plugin" {
		folder = filepath.Dir(folder)
	}
	name := filepath.Dir(folder)
	market := filepath.Dir(name)
	plugins := filepath.Dir(filepath.Dir(market)) // above cache
	return plugin{folder, filepath.Base(name), filepath.Base(market), filepath.Join(plugins, "data")}
}

// id is how the settings call it.
func (p plugin) id() string { return p.name + "@" + p.market }

// pluginSwitch says why a plugin's server is off: a plugin counts when the
// settings enable it.
func (l *loader) pluginSwitch(s Server) string {
	id := pluginOf(s.Sources[0].Path).id()
	for _, file := range l.claudeSettings() {
		doc := l.open(file, 0)
		if doc == nil {
			continue
		}
		on, ok := doc.value("enabledPlugins", id)
		if !ok {
			continue
		}
		if value, known := on.truth(); known && value {
			return ""
		}
		return "enabledPlugins." + id + " in " + file
	}
	return "plugin " + id + " is not in enabledPlugins"
}
