package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/testshared"
)

// manifest is an object of deploy/kubernetes with the fields that are checked.
type manifest struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	RoleRef  struct{ Kind, Name string } `yaml:"roleRef"`
	Subjects []struct{ Kind, Name, Namespace string }
	Rules    []struct {
		APIGroups     []string `yaml:"apiGroups"`
		Resources     []string
		ResourceNames []string `yaml:"resourceNames"`
		Verbs         []string
	}
}

// manifests are the objects of the files of the adapter.
func manifests(t *testing.T, files ...string) (out []manifest) {
	t.Helper()
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(testshared.Root(t), "deploy", "kubernetes", f))
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var m manifest
			if err := d.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			out = append(out, m)
		}
	}
	return out
}

// granted reports whether roles that are bound to the adapter give a right.
func granted(all []manifest, r cluster.Right) bool {
	for _, binding := range all {
		if len(binding.Subjects) != 1 || binding.Subjects[0].Name != "autosched-kube" {
			continue
		}
		for _, role := range all {
			within := binding.Metadata.Namespace // empty of a ClusterRoleBinding
			if role.Kind != binding.RoleRef.Kind || role.Metadata.Name != binding.RoleRef.Name ||
				role.Metadata.Namespace != within || within != "" && r.Namespace != within {
				continue
			}
			for _, rule := range role.Rules {
				if slices.Contains(rule.APIGroups, r.Group) && slices.Contains(rule.Resources, r.Resource) &&
					slices.Contains(rule.Verbs, r.Verb) &&
					(len(rule.ResourceNames) == 0 || r.Name != "" && slices.Contains(rule.ResourceNames, r.Name)) {
					return true
				}
			}
		}
	}
	return false
}

// TestDeploy: the manifests give the rights that the adapter uses, and no more; their settings are flags.
func TestDeploy(t *testing.T) {
	all := manifests(t, "autosched-kube.yaml", "autosched-kube-reader.yaml", "autosched-kube-tuner.yaml")
	for _, s := range cluster.Schedulers {
		rights := append(s.Reads(), cluster.Holds("autosched")...)
		rights = append(rights, s.Writes([]string{"tenant-0", "tenant-1", "tenant-2"})...)
		for _, r := range rights {
			if !granted(all, r) {
				t.Errorf("the manifests do not give %v", r)
			}
		}
	}
	for _, m := range all {
		for _, rule := range m.Rules {
			for _, verb := range rule.Verbs {
				reads := slices.Contains([]string{"get", "list", "watch"}, verb)
				switch {
				case slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*") || verb == "*":
					t.Errorf("%s gives %v on %v", m.Metadata.Name, verb, rule.Resources)
				case !reads && len(rule.ResourceNames) == 0 && !slices.Equal(rule.Resources, []string{"leases"}):
					t.Errorf("%s gives %v on all %v", m.Metadata.Name, verb, rule.Resources)
				}
			}
		}
		for name, text := range m.Data {
			cmd := newRunCmd()
			for _, s := range cli.ParseSettings([]byte(text), cli.SettingNames(cmd.Flags())) {
				if s.Err != nil && !strings.HasPrefix(s.Key, "tls-") && s.Key != "server" {
					t.Errorf("%s: %v", name, s.Err)
				}
			}
		}
	}
}
