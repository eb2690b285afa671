package jet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Config is the content of a cluster file.
type Config struct {
	Node string `yaml:"node"` // a name that no other node has
	Dir  string `yaml:"dir"`  // of the replica and of the files of an embedded server
	// Peer is the HOST:PORT at which the other nodes reach this one.
	Peer string `yaml:"peer"`
	// Replicas is how many servers keep the log: 1, 3 or 5. A majority of them must run.
	Replicas int `yaml:"replicas"`
	// Embedded or External, not both.
	Embedded *Embedded `yaml:"embedded"`
	External *External `yaml:"external"`
	// TLS is of the connections to servers; needed unless all are loopback addresses or have names in URLs with tls.
	TLS *TLS `yaml:"tls"`
}

// Embedded is a server in the process of the node.
type Embedded struct {
	Cluster string   `yaml:"cluster"` // HOST:PORT at which it listens for the other servers; none if it is alone
	Routes  []string `yaml:"routes"`  // HOST:PORT of the others
	Client  string   `yaml:"client"`  // HOST:PORT for tools; none is served if it is empty
}

// External are servers that run by themselves.
type External struct {
	URLs        []string `yaml:"urls"`
	Credentials string   `yaml:"credentials"` // a file; none if it is empty
	// System is a URL with user and password of the system account, by which their settings are read.
	System string `yaml:"system"`
}

// TLS names files in PEM.
type TLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	CA   string `yaml:"ca"`
}

// variable is a variable of the environment in a cluster file: one file is that of all nodes, then.
var variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// nodeName is of names that are part of a key of the engine.
var nodeName = regexp.MustCompile(`^[-_A-Za-z0-9]+$`)

// ReadConfig reads a cluster file.
func ReadConfig(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var unset []string
	text = variable.ReplaceAllFunc(text, func(name []byte) []byte {
		value, ok := os.LookupEnv(string(name[2 : len(name)-1]))
		if !ok {
			unset = append(unset, string(name))
		}
		return []byte(value)
	})
	if len(unset) > 0 {
		return nil, fmt.Errorf("%s: %s: not set in the environment", path, strings.Join(unset, ", "))
	}
	var c Config
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &c, nil
}

func (c *Config) check() error {
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	switch {
	case !nodeName.MatchString(c.Node):
		return errors.New("node: want a name of letters of ASCII, digits, - and _")
	case c.Dir == "":
		return errors.New("dir: want the directory of the node's files")
	case c.Replicas > 1 && c.Peer == "":
		return errors.New("peer: want the HOST:PORT at which the other nodes reach this one")
	case c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5:
		return fmt.Errorf("replicas: %d, want 1, 3 or 5", c.Replicas)
	case (c.Embedded == nil) == (c.External == nil):
		return errors.New("want one of embedded and external")
	case c.External != nil && len(c.External.URLs) == 0:
		return errors.New("external.urls: want the servers' URLs")
	case c.External != nil && c.External.System == "":
		return errors.New("external.system: want a URL with user and password of the system account: " +
			"whether the servers sync is asked by it")
	case c.Embedded != nil && c.Replicas > 1 && (c.Embedded.Cluster == "" || len(c.Embedded.Routes) == 0):
		return errors.New("embedded: several replicas need cluster, this server's address, and routes, the others'")
	case c.TLS != nil && (c.TLS.Cert == "" || c.TLS.Key == "" || c.TLS.CA == ""):
		return errors.New("tls: want cert, key and ca")
	}
	if c.Peer != "" {
		if _, _, err := split(c.Peer); err != nil {
			return fmt.Errorf("peer: %w", err)
		}
	}
	if c.Embedded != nil {
		for _, route := range c.Embedded.Routes {
			if _, err := url.Parse("nats://" + route); err != nil {
				return fmt.Errorf("embedded.routes: %w", err)
			}
		}
	}
	if c.Embedded != nil && c.TLS == nil {
		for _, address := range append([]string{c.Embedded.Cluster, c.Embedded.Client}, c.Embedded.Routes...) {
			if address != "" && !loopback(address) {
				return fmt.Errorf("tls: %s is no loopback address: want cert, key and ca", address)
			}
		}
	}
	return nil
}

// Replica is the directory of the replica, Engine that of an embedded server.
func (c *Config) Replica() string { return filepath.Join(c.Dir, "replica") }

// Engine is the directory of an embedded server.
func (c *Config) Engine() string { return filepath.Join(c.Dir, "engine") }
