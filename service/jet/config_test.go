package jet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A name that the engine takes for no key, and a route that is no host, are refused before anything starts.
func TestConfigIsRefused(t *testing.T) {
	for _, c := range []struct{ node, route, want string }{
		{"a:b", "b:6222", "node:"}, {"\u00e4", "b:6222", "node:"}, {"a", "b c:6222", "embedded.routes:"},
		{"a", "%zz:6222", "embedded.routes:"}} {
		path := filepath.Join(t.TempDir(), "cluster.yaml")
		text := "node: '" + c.node + "'\ndir: d\npeer: a:1\nreplicas: 3\ntls: {cert: c, key: k, ca: a}\n" +
			"embedded: {cluster: 'a:6222', routes: ['" + c.route + "']}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConfig(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
