package view

// Settings are those that a process was started with. The zero value is of a process that
// no command has started.
type Settings struct {
	// Command is what was started, such as "headgate serve".
	Command string `json:"command"`
	// Settings are in the order in which the help of the command has them.
	Settings []Setting `json:"settings"`
}

// Setting is one of them. It holds no password.
type Setting struct {
	// Name is that of the flag, without the dashes.
	Name string `json:"name"`
	// Group is the heading under which the help has it; "" is none.
	Group string `json:"group"`
	// Value is what is in force, as a file of settings has it; "" where none is given and
	// there is no default.
	Value string `json:"value"`
	// From says where the value comes from.
	From SettingSource `json:"from"`
	// Variables are those of the environment by which it is so; only FromEnvironment has any.
	Variables []string `json:"variables,omitempty"`
	// Default is what counts where nothing is given; "" is none.
	Default string `json:"default"`
	// About is what the setting does, as the help says it.
	About string `json:"about"`
}

// SettingSource says where the value of a setting comes from.
type SettingSource string

// The sources. Each wins over those after it.
const (
	FromCommandLine SettingSource = "command line"
	FromEnvironment SettingSource = "environment"
	FromFile        SettingSource = "file"
	FromDefault     SettingSource = "default"
)
