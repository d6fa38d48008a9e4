package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"github.com/opreplay/opreplay/examples/operators"
)

// Scenario is a user's session with one operator of the zoo.
type Scenario struct {
	operators.Operator
	// Namespace is where the user works.
	Namespace string

	play func(context.Context, *user) error
}

// For returns the scenario for the operator of that name.
func For(name string) (Scenario, error) {
	operator, ok := operators.Find(name)
	if !ok {
		return Scenario{}, fmt.Errorf("the zoo has no operator %q", name)
	}
	session, ok := sessions[name]
	if !ok {
		return Scenario{}, fmt.Errorf("operator %q has no scenario", name)
	}
	return Scenario{operator, session.namespace, session.play}, nil
}

// sessions are what the user of each operator does, and where.
var sessions = map[string]struct {
	namespace string
	play      func(context.Context, *user) error
}{
	"statusloop":      {"web", playSites},
	"statusrace":      {"data", playDatabases},
	"orphanfinalizer": {"dns", playRecords},
	"halfcreate":      {"mq", playBrokers},
	"staleclaim":      {"dev", playWorkspaces},
	"doublecreate":    {"ci", playBuilds},
	"earlyrelease":    {"fleet", playFleets},
	"fatalconflict":   {"deploy", playRollouts},
	"droppedstatus":   {"billing", playAccounts},
	"missedsize":      {"ring", playRings},
	"tombstone":       {"net", playRoutes},
	"twoleaders":      {"shop", playOrders},
	"tugofwar":        {"load", playPools},
	"prunedfield":     {"cache", playCaches},
	"wronglabel":      {"grid", playGrids},
	"farowner":        {"tenancy", playTenants},
	"retrystorm":      {"copy", playMirrors},
	"panicloop":       {"pool", playPoolers},
	"missingkind":     {"cache", playStores},
	"starvation":      {"jobs", playExports},
	"eventflood":      {"feed", playFeeds},
	"openbreaker":     {"link", playLinks},
	"oldpods":         {"apps", playApps},
	"alwaysready":     {"market", playStands},
	"narrowschema":    {"hotel", playRooms},
	"unscraped":       {"station", playStations},
	"throttled":       {"album", playAlbums},
	"lostgauge":       {"gauge", playGauges},
	"nodeadline":      {"forms", playForms},
	"latehook":        {"note", playNotes},
	"busywait":        {"timer", playTimers},
	"nopredicate":     {"sense", playSensors},
	"overgranted":     {"desk", playDesks},
	"misnamed":        {"shelf", playShelves},
	"oneworker":       {"travel", playTickets},
}

// All is every scenario of the zoo, in its order.
func All() ([]Scenario, error) {
	var all []Scenario
	for _, o := range operators.Zoo() {
		s, err := For(o.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

var (
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// Install creates what must be there before the operator starts: its definitions, established and
// served, and the user's namespace.
func (s Scenario) Install(ctx context.Context, config *rest.Config) error {
	u, err := newUser(config, s.Namespace)
	if err != nil {
		return err
	}
	definitions, err := documents(s.CRDs)
	if err != nil {
		return fmt.Errorf("definitions of %s: %w", s.Name, err)
	}
	for _, crd := range definitions {
		if _, err := u.client.Resource(crds).Create(ctx, crd, metav1.CreateOptions{FieldManager: creator}); err != nil {
			return fmt.Errorf("install %s: %w", crd.GetName(), err)
		}
		if err := u.established(ctx, crd.GetName()); err != nil {
			return err
		}
	}
	ns := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": s.Namespace},
	}}
	_, err = u.client.Resource(namespaces).Create(ctx, ns, metav1.CreateOptions{FieldManager: creator})
	if err != nil && !apierrors.IsAlreadyExists(err) { // two operators may have users in one namespace
		return fmt.Errorf("create namespace %s: %w", s.Namespace, err)
	}
	manifests, err := documents(s.Manifests)
	if err != nil {
		return fmt.Errorf("manifests of %s: %w", s.Name, err)
	}
	for _, object := range manifests {
		if err := u.apply(ctx, object); err != nil {
			return fmt.Errorf("install %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// Play is the user's session. It returns when the user is done, or an error when the operator did not do
// what even the faulty twin does.
func (s Scenario) Play(ctx context.Context, config *rest.Config) error {
	u, err := newUser(config, s.Namespace)
	if err != nil {
		return err
	}
	if err := s.play(ctx, u); err != nil {
		return fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return nil
}

// documents parses YAML documents.
func documents(text []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out = append(out, object)
	}
}
