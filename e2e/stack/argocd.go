package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ArgoCDNamespace is where Argo CD has its configuration.
const ArgoCDNamespace = "argocd"

// startArgoCD installs Argo CD and starts the parts of it that are asked for.
func (c *Cluster) startArgoCD(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.installArgoCD(groupCtx) })
	if c.rendersManifests() {
		group.Go(func() error { return c.startRedis(groupCtx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	group, ctx = errgroup.WithContext(ctx)
	if c.rendersManifests() {
		group.Go(func() error { return c.startRepoServer(ctx) })
	}
	if c.cfg.ArgoCD {
		group.Go(func() error { return c.startAppController(ctx) })
	}
	if c.cfg.Server {
		group.Go(func() error { return c.startArgoCDServer(ctx) })
	}
	if c.cfg.ApplicationSets {
		group.Go(func() error { return c.startAppSetController(ctx) })
	}
	return group.Wait()
}

// rendersManifests reports whether a part runs that asks the repo-server.
func (c *Cluster) rendersManifests() bool {
	return c.cfg.ArgoCD && !c.cfg.Shared || c.cfg.Server || c.cfg.ApplicationSets
}

// installArgoCD creates the namespace, the configuration, the resource
// definitions and a project that allows everything.
func (c *Cluster) installArgoCD(ctx context.Context) error {
	if err := c.Namespace(ctx, ArgoCDNamespace); err != nil {
		return err
	}
	if err := c.applyManifest(ctx, "argocd.yaml"); err != nil {
		return err
	}
	if err := c.InstallArgoCDCRDs(ctx); err != nil {
		return err
	}
	return c.applyManifest(ctx, "project.yaml")
}

func (c *Cluster) applyManifest(ctx context.Context, name string) error {
	manifest, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		return fmt.Errorf("stack: read %s: %w", name, err)
	}
	return c.Apply(ctx, manifest)
}

// InstallArgoCDCRDs installs Argo CD's resource definitions and returns once
// the API server serves them. [Start] does so where [ClusterConfig] asks for
// it; a test may use it to put them back.
func (c *Cluster) InstallArgoCDCRDs(ctx context.Context) error {
	names := []string{"application", "appproject"}
	if c.cfg.ApplicationSets {
		names = append(names, "applicationset")
	}
	for _, name := range names {
		definition, err := c.stack.binaries.argoCDFile(name + "-crd.yaml")
		if err != nil {
			return fmt.Errorf("stack: read the definition of %s: %w", name, err)
		}
		if err := c.Apply(ctx, definition); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := Poll(ctx, pollInterval, func(ctx context.Context) error { return c.served(ctx, name+"s") }); err != nil {
			return fmt.Errorf("stack: wait for the definition of %s on %s: %w", name, c.cfg.Name, err)
		}
	}
	return nil
}

// served tells whether an Argo CD resource can be used.
func (c *Cluster) served(ctx context.Context, plural string) error {
	definitions := schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	definition, err := c.client.Resource(definitions).Get(ctx, plural+"."+Applications().Group, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := condition(definition, "Established"); err != nil {
		return err
	}
	// The endpoint may lag behind the condition, and what is told of it behind that.
	resource := Applications().GroupVersion().WithResource(plural)
	if _, err := c.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return err
	}
	c.mapper.Reset()
	_, err = c.mapper.ResourceFor(resource)
	return err
}

func (c *Cluster) startRedis(ctx context.Context) error {
	dir := c.file("redis")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("stack: start %s: %w", Redis, err)
	}
	return c.part(programs, Redis, ProcessConfig{
		Args: []string{
			"--port", fmt.Sprint(c.ports[Redis]), "--bind", "127.0.0.1",
			"--save", "", "--appendonly", "no", "--dir", dir,
		},
		Ready: listens(c.address(Redis)),
	}).Start(ctx)
}

func (c *Cluster) startRepoServer(ctx context.Context) error {
	env, err := c.argoCDEnv(RepoServer)
	if err != nil {
		return err
	}
	return c.part(programs, RepoServer, ProcessConfig{
		Args: []string{
			"--address=127.0.0.1", fmt.Sprintf("--port=%d", c.ports[RepoServer]),
			"--metrics-address=127.0.0.1", fmt.Sprintf("--metrics-port=%d", c.ports[metrics(RepoServer)]),
			"--redis=" + c.address(Redis),
			"--disable-tls",
		},
		Env:   env,
		Ready: Answers(nil, "http://"+c.address(metrics(RepoServer))+"/healthz"),
	}).Start(ctx)
}

func (c *Cluster) startAppController(ctx context.Context) error {
	env, err := c.argoCDEnv(AppController)
	if err != nil {
		return err
	}
	redis, repoServer := Redis, RepoServer
	if c.cfg.Shared {
		redis, repoServer = sharedRedis, sharedRepoServer
	}
	return c.part(programs, AppController, ProcessConfig{
		Args: []string{
			"--namespace=" + ArgoCDNamespace,
			fmt.Sprintf("--metrics-port=%d", c.ports[metrics(AppController)]),
			"--redis=" + c.address(redis),
			"--repo-server=" + c.address(repoServer), "--repo-server-plaintext",
			"--app-resync=86400", // else it writes the time into every Application each three minutes
			"--application-namespaces=" + c.applicationNamespaces(),
		},
		Env:   env,
		Ready: Answers(nil, "http://"+c.address(metrics(AppController))+"/healthz"),
	}).Start(ctx)
}

func (c *Cluster) startArgoCDServer(ctx context.Context) error {
	env, err := c.argoCDEnv(ArgoCDServer)
	if err != nil {
		return err
	}
	redis := Redis
	if c.cfg.RedisProxy {
		redis = redisProxy
	}
	return c.part(programs, ArgoCDServer, ProcessConfig{
		Args: []string{
			"--namespace=" + ArgoCDNamespace,
			"--address=127.0.0.1", fmt.Sprintf("--port=%d", c.ports[ArgoCDServer]),
			"--metrics-address=127.0.0.1", fmt.Sprintf("--metrics-port=%d", c.ports[metrics(ArgoCDServer)]),
			"--redis=" + c.address(redis),
			"--repo-server=" + c.address(RepoServer), "--repo-server-plaintext",
			"--disable-auth", "--insecure",
			"--dex-server=http://" + loopback(1), // there is none
			"--application-namespaces=" + c.applicationNamespaces(),
		},
		Env:   env,
		Ready: Answers(nil, c.ArgoCDServerURL()+"/healthz"),
	}).Start(ctx)
}

func (c *Cluster) startAppSetController(ctx context.Context) error {
	env, err := c.argoCDEnv(AppSetController)
	if err != nil {
		return err
	}
	return c.part(programs, AppSetController, ProcessConfig{
		Args: []string{
			"--namespace=" + ArgoCDNamespace,
			"--metrics-addr=" + c.address(metrics(AppSetController)),
			"--probe-addr=" + c.address(probes(AppSetController)),
			"--webhook-addr=" + c.address(webhooks(AppSetController)),
			"--argocd-repo-server=" + c.address(RepoServer), "--repo-server-plaintext",
			"--applicationset-namespaces=" + c.applicationNamespaces(),
			"--enable-scm-providers=false", // or it would not take other namespaces
		},
		Env:   env,
		Ready: Answers(nil, "http://"+c.address(metrics(AppSetController))+"/metrics"),
	}).Start(ctx)
}

// applicationNamespaces returns the value of a flag that lists namespaces.
func (c *Cluster) applicationNamespaces() string {
	return strings.Join(c.cfg.ApplicationNamespaces, ",")
}

// argoCDEnv makes the directories of a part of Argo CD and returns its
// environment. The parts take fixed paths for what they find in a container.
func (c *Cluster) argoCDEnv(part string) ([]string, error) {
	dir := c.file(part)
	sub := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.MkdirAll(sub("tls"), 0o755), os.MkdirAll(sub("ssh"), 0o755), os.MkdirAll(sub("gpg/source"), 0o755),
		os.MkdirAll(sub("gpg/keys"), 0o700), os.MkdirAll(sub("tmp"), 0o755), os.MkdirAll(sub("home"), 0o755),
	)
	if err == nil {
		err = os.WriteFile(sub("ssh/ssh_known_hosts"), nil, 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("stack: start %s: %w", part, err)
	}
	return []string{
		"KUBECONFIG=" + c.Kubeconfig(),
		"ARGOCD_FAKE_IN_CLUSTER=true", // kubernetes.default.svc is that API server
		"ARGOCD_TLS_DATA_PATH=" + sub("tls"),
		"ARGOCD_SSH_DATA_PATH=" + sub("ssh"),
		"ARGOCD_GPG_ENABLED=false",
		"ARGOCD_GNUPGHOME=" + sub("gpg/keys"),
		"ARGOCD_GPG_DATA_PATH=" + sub("gpg/source"),
		"ARGOCD_ASK_PASS_SOCK=" + sub("tmp/askpass.sock"),
		"ARGOCD_SYNC_WAVE_DELAY=0", // two seconds of every sync otherwise
		"HOSTNAME=" + part + "-0",  // from which the controller takes its shard
		"HOME=" + sub("home"),
		"TMPDIR=" + sub("tmp"),
		"GOGC=50",
		"PATH=" + filepath.Dir(c.stack.binaries.Path(part)) + string(os.PathListSeparator) + os.Getenv("PATH"),
	}, nil
}
