package apiserver

import (
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kubernetes/pkg/apis/batch"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/policy"
)

// amend puts right what the registries fill in from the wall clock or from a uid that was not the world's
// yet, in the kinds where they do. What clients may have written is left alone.
func amend(obj runtime.Object, fix func(*metav1.Time)) {
	switch o := obj.(type) {
	case *api.Pod:
		for i := range o.Status.Conditions {
			// Of binding, of eviction (k8s.io/kubernetes/pkg/registry/core/pod).
			if c := &o.Status.Conditions[i]; c.Type == api.PodScheduled || c.Type == api.DisruptionTarget {
				fix(&c.LastTransitionTime)
			}
		}
	case *policy.PodDisruptionBudget:
		for pod, t := range o.Status.DisruptedPods {
			fix(&t)
			o.Status.DisruptedPods[pod] = t
		}
	case *apiregistration.APIService:
		for i := range o.Status.Conditions {
			fix(&o.Status.Conditions[i].LastTransitionTime) // of one that is local (k8s.io/kube-aggregator/pkg/registry/apiservice)
		}
	case *batch.Job:
		amendJob(o)
	default:
		amendTimes(obj, fix)
	}
}

// amendJob has a Job select by the uid that it has. The registry selects by the one that it drew
// (k8s.io/kubernetes/pkg/registry/batch/job, generateSelector).
func amendJob(job *batch.Job) {
	if job.Generation > 1 || job.Spec.ManualSelector != nil && *job.Spec.ManualSelector || job.Spec.Selector == nil {
		return
	}
	for _, labels := range []map[string]string{job.Spec.Selector.MatchLabels, job.Spec.Template.Labels} {
		for _, k := range []string{batch.ControllerUidLabel, batch.LegacyControllerUidLabel} {
			if _, err := uuid.Parse(labels[k]); err == nil {
				labels[k] = string(job.UID)
			}
		}
	}
}
