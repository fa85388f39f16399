// Renders a Helm chart as `helm template` does: Helm itself is in no package that the test machines reach.
//
// Go's templates, sprig's functions and the YAML library are those of Helm; what is left out (dependencies, hooks,
// `lookup`, capabilities) the chart doesn't use. helm_template CHART RELEASE NAMESPACE, with values as YAML on stdin.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type values = map[string]interface{}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(chart, release, namespace string) error {
	given, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	settings, err := read(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	own := values{}
	if err := yaml.Unmarshal(given, &own); err != nil {
		return err
	}
	about, err := read(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return err
	}
	for _, name := range []string{"name", "version", "appVersion"} {
		about[strings.ToUpper(name[:1])+name[1:]] = about[name]
	}
	top := values{
		"Values":  overlaid(settings, own),
		"Chart":   about,
		"Release": values{"Name": release, "Namespace": namespace, "Service": "Helm"},
	}
	return render(chart, top)
}

func render(chart string, top values) error {
	root := template.New("chart").Option("missingkey=zero")
	root.Funcs(functions(root))
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := root.New(filepath.Base(file)).Parse(string(text)); err != nil {
			return err
		}
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out bytes.Buffer
		if err := root.ExecuteTemplate(&out, name, top); err != nil {
			return err
		}
		if name == "NOTES.txt" { // Which `helm install` prints, and `helm template` doesn't.
			continue
		}
		// Helm prints a missing value as nothing.
		fmt.Printf("---\n# Source: %s\n%s\n", name, strings.ReplaceAll(out.String(), "<no value>", ""))
	}
	return nil
}

func functions(root *template.Template) template.FuncMap {
	all := sprig.TxtFuncMap()
	all["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := root.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	all["toYaml"] = func(value interface{}) string {
		text, err := yaml.Marshal(value)
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(string(text), "\n")
	}
	all["required"] = func(why string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return value, errors.New(why)
		}
		return value, nil
	}
	return all
}

func read(file string) (values, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found := values{}
	return found, yaml.Unmarshal(text, &found)
}

// overlaid gives the chart's values with a user's: maps are merged, and null removes a key.
func overlaid(below, above values) values {
	for name, value := range above {
		mine, isMap := below[name].(values)
		theirs, areMaps := value.(values)
		switch {
		case value == nil:
			delete(below, name)
		case isMap && areMaps:
			below[name] = overlaid(mine, theirs)
		default:
			below[name] = value
		}
	}
	return below
}
