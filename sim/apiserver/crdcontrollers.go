package apiserver

import (
	"context"
	"fmt"
	"slices"
	_ "unsafe" // for go:linkname

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/apiapproval"
	"k8s.io/apiextensions-apiserver/pkg/controller/establish"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	"k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema"
	"k8s.io/apiextensions-apiserver/pkg/controller/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
)

// The controllers of k8s.io/apiextensions-apiserver, one pass over one CRD each. They have no exported way
// to be driven but goroutines that take from a queue, of which nobody can tell when they have finished.

//go:linkname syncNames k8s.io/apiextensions-apiserver/pkg/controller/status.(*NamingConditionController).sync
func syncNames(c *status.NamingConditionController, ctx context.Context, name string) error

//go:linkname syncStructure k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema.(*ConditionController).sync
func syncStructure(c *nonstructuralschema.ConditionController, ctx context.Context, name string) error

//go:linkname syncApproval k8s.io/apiextensions-apiserver/pkg/controller/apiapproval.(*KubernetesAPIApprovalPolicyConformantConditionController).sync
func syncApproval(c *apiapproval.KubernetesAPIApprovalPolicyConformantConditionController, ctx context.Context, name string) error

//go:linkname syncEstablished k8s.io/apiextensions-apiserver/pkg/controller/establish.(*EstablishingController).sync
func syncEstablished(c *establish.EstablishingController, ctx context.Context, name string) error

// crdControllers are those that remember something of what they saw. A world that is restored gets new ones.
type crdControllers struct {
	names     *status.NamingConditionController
	structure *nonstructuralschema.ConditionController
	approval  *apiapproval.KubernetesAPIApprovalPolicyConformantConditionController
}

func newCRDControllers(view *crdView, client crdclient.CustomResourceDefinitionsGetter) crdControllers {
	view.gone = nil
	return crdControllers{
		names:     status.NewNamingConditionController(klog.Background(), view.forController(), client),
		structure: nonstructuralschema.NewConditionController(view.forController(), client),
		approval:  apiapproval.NewKubernetesAPIApprovalPolicyConformantConditionController(view.forController(), client),
	}
}

// stop ends the goroutines of their queues.
func (c crdControllers) stop() {
	stopped := make(chan struct{})
	close(stopped)
	c.names.Run(stopped)
	c.structure.Run(0, stopped)
	c.approval.Run(0, stopped)
}

// sync has every controller look at one CRD, in an order of ours: in a real API server it is left to chance.
func (c *customs) sync(ctx context.Context, name string) error {
	for _, step := range []func() error{
		func() error { return syncNames(c.controllers.names, ctx, name) },
		func() error { return syncStructure(c.controllers.structure, ctx, name) },
		func() error { return syncApproval(c.controllers.approval, ctx, name) },
		func() error { return syncEstablished(c.establishing, ctx, name) },
		func() error { return c.finalize(ctx, name) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("CRD %s: %w", name, err)
		}
		if err := c.observe(); err != nil {
			return err
		}
	}
	return nil
}

// deleting is the reason of the condition of a CRD whose custom resources are asked to go.
const deleting = "InstanceDeletionInProgress"

// finalize deletes the custom resources of a deleted CRD, and lets it go when there are none, as
// k8s.io/apiextensions-apiserver/pkg/controller/finalizer does. Where that waits for up to a minute, looks
// every five seconds and begins anew, this returns: settle comes again after each write, as long as the CRD
// is held.
func (c *customs) finalize(ctx context.Context, name string) error {
	crd := c.view.get(name)
	if crd == nil || !held(crd) || c.tried[name] {
		return nil
	}
	const failed = "InstanceDeletionFailed"
	before := apiextensionshelpers.FindCRDCondition(crd, apiextensionsv1.Terminating)
	if before != nil && before.Reason == deleting {
		return c.whenEmpty(ctx, crd)
	}
	if before != nil && before.Reason == failed {
		// It is tried again after each write: without a word until it succeeds.
		if err := c.deleteInstances(ctx, crd); err != nil {
			c.tried[name] = true
			return nil //nolint:nilerr // tried again
		}
	}
	crd, err := c.setTerminating(ctx, crd, deleting, "CustomResource deletion is in progress")
	switch {
	case err != nil || crd == nil:
		return err
	case finalizer.OverlappingBuiltInResources()[schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}]:
		return c.letGo(ctx, crd, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
	case !apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established):
		return c.letGo(ctx, crd, "NeverEstablished", "resource was never established")
	}
	if err := c.deleteInstances(ctx, crd); err != nil {
		c.tried[name] = true
		_, err := c.setTerminating(ctx, crd, failed, err.Error())
		return err
	}
	return c.whenEmpty(ctx, crd)
}

// held tells whether a deleted CRD waits for its custom resources to go.
func held(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return !crd.DeletionTimestamp.IsZero() && apiextensionshelpers.CRDHasFinalizer(crd, apiextensionsv1.CustomResourceCleanupFinalizer)
}

func (c *customs) whenEmpty(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	if c.world.Count(resourceOf(crd)) > 0 {
		return nil
	}
	return c.letGo(ctx, crd, "InstanceDeletionCompleted", "removed all instances")
}

// setTerminating stores a condition and gives what was stored, nil when somebody else was faster.
func (c *customs) setTerminating(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, reason, message string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd = crd.DeepCopy()
	apiextensionshelpers.SetCRDCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: reason, Message: message,
	})
	return c.update(ctx, crd)
}

func (c *customs) letGo(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, reason, message string) error {
	crd = crd.DeepCopy()
	apiextensionshelpers.SetCRDCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse, Reason: reason, Message: message,
	})
	apiextensionshelpers.CRDRemoveFinalizer(crd, apiextensionsv1.CustomResourceCleanupFinalizer)
	_, err := c.update(ctx, crd)
	return err
}

func (c *customs) update(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd, err := c.client.CustomResourceDefinitions().UpdateStatus(ctx, crd, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil, nil // deleted or changed in the meantime: its turn comes again
	}
	return crd, err
}

// deleteInstances asks for the deletion of all custom resources.
func (c *customs) deleteInstances(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	instances, err := c.instances.GetCustomResourceListerCollectionDeleter(crd)
	if err != nil {
		return fmt.Errorf("could not list instances: unable to find a custom resource client for %s.%s: %w", crd.Status.AcceptedNames.Plural, crd.Spec.Group, err)
	}
	all, err := instances.List(ctx, nil)
	if err != nil {
		return fmt.Errorf("could not list instances: %w", err)
	}
	var namespaces []string
	for _, item := range all.(*unstructured.UnstructuredList).Items {
		if !slices.Contains(namespaces, item.GetNamespace()) {
			namespaces = append(namespaces, item.GetNamespace())
		}
	}
	var errs []error
	for _, ns := range namespaces {
		if _, err := instances.DeleteCollection(genericapirequest.WithNamespace(ctx, ns), rest.ValidateAllObjectFunc, nil, nil); err != nil {
			errs = append(errs, err)
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return fmt.Errorf("could not issue all deletes: %w", err)
	}
	return nil
}

func resourceOf(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupResource {
	return schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
}
