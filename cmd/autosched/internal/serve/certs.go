package serve

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/internal/certs"
	"github.com/autosched/autosched/internal/cli"
)

// certsOptions are the flags of certs.
type certsOptions struct {
	dir        string
	hosts      []string
	schedulers []string
	days       int
	nodes      bool
}

func newCertsCmd() *cobra.Command {
	var o certsOptions
	cmd := &cobra.Command{
		Use:   "certs DIR",
		Short: "Make certificates and a roles file, to start the service with TLS",
		Long: `Makes in a directory what 'autosched serve' and its clients need for mutual TLS:

  ca.pem, ca.key               an authority, valid for ten years
  server.pem, server.key       the service, for localhost and every --host
  admin.pem, operator.pem, viewer.pem, scheduler-ID.pem, and their keys: clients
  viewer.token                 a token, as for Prometheus
  roles.yaml                   what each of these clients may do
  node-ca.pem, node.pem, and their keys, with --peers: of nodes of one service, which
                               an authority of their own keeps from all others

Files that exist are kept and missing ones are made from the authority in the
directory: run it again for another --id, or remove a certificate and its
key to have them issued anew. 'autosched serve' notices changed files while it
runs. Keep ca.key away from the service: only this command reads it.`,
		Example: `  autosched admin certs pki --host tuner.example.org --id prod
  autosched serve --dir data --listen 0.0.0.0:7443 --tls-cert pki/server.pem --tls-key pki/server.key \
      --client-ca pki/ca.pem --roles pki/roles.yaml
  autosched scheduler list --server tuner.example.org:7443 --tls-ca pki/ca.pem --tls-cert pki/operator.pem \
      --tls-key pki/operator.key`,
		Args: cli.Exactly(1, "want one directory for the certificates"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = args[0]
			if err := o.check(); err != nil {
				return err
			}
			return o.run(time.Now(), cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&o.hosts, "host", nil, "host names and addresses of the service besides localhost")
	fl.StringSliceVar(&o.schedulers, "id", nil, "")
	fl.BoolVar(&o.nodes, "peers", false,
		"also make a certificate for the connections between nodes, with an authority of its own (docs/nodes.md)")
	fl.IntVar(&o.days, "valid-days", 365, "days for which certificates are valid")
	return cmd
}

func (o *certsOptions) check() error {
	for _, h := range o.hosts {
		if net.ParseIP(h) == nil && (h == "" || strings.ContainsAny(h, ":/ ")) {
			return cli.Usage(fmt.Errorf("--host: %q is neither a host name nor an address; it has no port", h))
		}
	}
	for _, id := range o.schedulers {
		if err := convert.CheckID(id); err != nil {
			return cli.Usage(fmt.Errorf("--id: %w", err))
		}
	}
	if o.days < 1 || o.days > 3650 {
		return cli.Usage(fmt.Errorf("--valid-days: %d is not from 1 to 3650", o.days))
	}
	return nil
}

// identity is a client that certs makes a certificate for.
type identity struct{ name, role, scheduler, uri, token string }

func (i identity) yaml() string {
	text := fmt.Sprintf("  - name: %s\n    role: %s\n", i.name, i.role)
	if i.scheduler != "" {
		text += fmt.Sprintf("    scheduler: %s\n", i.scheduler)
	}
	text += fmt.Sprintf("    uris: [%s]\n", i.uri)
	if i.token != "" {
		text += fmt.Sprintf("    token_sha256: [%x]\n", sha256.Sum256([]byte(i.token)))
	}
	return text
}

func (o *certsOptions) run(now time.Time, out io.Writer) error {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	from, until := now.Add(-time.Hour), now.AddDate(0, 0, o.days) // clocks of clients may be behind
	authority, err := o.authority("ca", "autosched authority", from, out)
	if err != nil {
		return err
	}
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, o.hosts...)
	if _, _, err := o.pair("server", out, func() (certs.Pair, error) {
		return authority.Server(hosts, from, until)
	}); err != nil {
		return err
	}
	if o.nodes {
		nodes, err := o.authority("node-ca", "autosched nodes", from, out)
		if err != nil {
			return err
		}
		if _, _, err := o.pair("node", out, func() (certs.Pair, error) {
			return nodes.Node(hosts, from, until)
		}); err != nil {
			return err
		}
	}
	var made []identity
	for _, i := range o.identities() {
		isNew, _, err := o.pair(i.name, out, func() (certs.Pair, error) {
			return authority.Client(i.name, []string{i.uri}, from, until)
		})
		if err != nil {
			return err
		}
		if i.name == string(access.Viewer) {
			if i.token, err = o.token(i.name+".token", out); err != nil {
				return err
			}
		}
		if isNew || i.token != "" {
			made = append(made, i)
		}
	}
	return o.roles(made, out)
}

// authority reads or makes an authority, which is valid for ten years.
func (o *certsOptions) authority(file, name string, from time.Time, out io.Writer) (*certs.Authority, error) {
	_, p, err := o.pair(file, out, func() (certs.Pair, error) {
		a, err := certs.NewAuthority(name, from, from.AddDate(10, 0, 0))
		if err != nil {
			return certs.Pair{}, err
		}
		return a.Pair, nil
	})
	if err != nil {
		return nil, err
	}
	a, err := certs.ReadAuthority(p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.path(file+".pem"), err)
	}
	return a, nil
}

// identities are the clients to make certificates for.
func (o *certsOptions) identities() []identity {
	const domain = "spiffe://autosched/"
	var all []identity
	for _, r := range []access.Role{access.Admin, access.Operator, access.Viewer} {
		all = append(all, identity{name: string(r), role: string(r), uri: domain + string(r)})
	}
	for _, id := range o.schedulers {
		all = append(all, identity{name: "scheduler-" + id, role: string(access.Scheduler), scheduler: id,
			uri: domain + "scheduler/" + id})
	}
	return all
}

func (o *certsOptions) path(name string) string { return filepath.Join(o.dir, name) }

// pair reads NAME.pem and NAME.key, or makes and writes them.
func (o *certsOptions) pair(name string, out io.Writer,
	issue func() (certs.Pair, error)) (made bool, p certs.Pair, err error) {
	cert, key := o.path(name+".pem"), o.path(name+".key")
	var noCert, noKey error
	p.Cert, noCert = os.ReadFile(cert)
	p.Key, noKey = os.ReadFile(key)
	switch {
	case noCert == nil && noKey == nil:
		return false, p, nil
	case !errors.Is(noCert, fs.ErrNotExist) || !errors.Is(noKey, fs.ErrNotExist):
		if err := errors.Join(noCert, noKey); err != nil {
			return false, p, fmt.Errorf("%w; remove what is left of the pair to have both issued anew", err)
		}
	}
	if p, err = issue(); err != nil {
		return false, p, err
	}
	if err := o.write(name+".key", p.Key, 0o600); err != nil {
		return false, p, err
	}
	if err := o.write(name+".pem", p.Cert, 0o644); err != nil {
		return false, p, err
	}
	fmt.Fprintf(out, "%s, %s\n", cert, key)
	return true, p, nil
}

// token makes a token; "" if there is one.
func (o *certsOptions) token(name string, out io.Writer) (string, error) {
	token := rand.Text()
	err := o.write(name, []byte(token+"\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", nil
	}
	if err == nil {
		fmt.Fprintln(out, o.path(name))
	}
	return token, err
}

// roles writes the roles file, or prints the lines to add to an existing one.
func (o *certsOptions) roles(made []identity, out io.Writer) error {
	if len(made) == 0 {
		return nil
	}
	var text strings.Builder
	for _, i := range made {
		text.WriteString(i.yaml())
	}
	const head = "# The callers of the service: docs/operations.md#access\ncallers:\n"
	err := o.write("roles.yaml", []byte(head+text.String()), 0o600)
	if errors.Is(err, fs.ErrExist) {
		_, err = fmt.Fprintf(out, "%s exists and is kept; these callers belong there, unless it has them:\n%s",
			o.path("roles.yaml"), text.String())
		return err
	}
	if err == nil {
		_, err = fmt.Fprintln(out, o.path("roles.yaml"))
	}
	return err
}

// write makes a file that is not there.
func (o *certsOptions) write(name string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(filepath.Clean(o.path(name)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
