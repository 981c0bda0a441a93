package real

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A story is played on the world that the stories before it have left.
type story struct {
	name string
	play func(*testing.T, *world)
}

// stories in the order in which they are played. Those called TestScenario are the faults
// of that number which real clusters can show; all of them are played on simulations, too.
func stories() []story {
	return []story{
		{"AnApplicationTravelsAndItsStatusComesBack", travels},
		{"TestScenario14_AnAgentThatNeverWasThere", neverThere},
		{"ApplicationsOfOneName", oneName},
		{"SpecLabelsAndAnnotations", edits},
		{"DriftIsReverted", drift},
		{"TestScenario06_OperationsRunOnce", operations},
		{"TestScenario09_CascadingDeletion", cascade},
		{"TestScenario09_DeletionThatLeavesWorkloads", orphan},
		{"DeletionsOfEveryKind", everyDeletion},
		{"DeletedOnBothSidesAtOnce", bothDelete},
		{"PostDeleteHooksRunOnTheSpoke", postDelete},
		{"BothSidesChangeWhileApart", apart},
		{"TestScenario02_ChangesWhileTheAgentIsAway", away},
		{"TestScenario03_ANamesakeOfATimeApart", namesake},
		{"TestScenario27_LabelsAndAnnotationsOfATimeApart", metadataApart},
		{"TestScenario28_ADeletionThatNoWatchHasSeen", unseen},
		{"TestScenario01_StatusesOfATimeApart", statusesApart},
		{"TestScenario15_ALeafRestartedWhileApart", leafRestarted},
		{"TenThousandEditsWhileAnAgentIsAway", tenThousand},
		{"ProjectsReachTheAgentsTheyConcern", projectsRouted},
		{"CopiesOfProjectsAreKept", projectsKept},
		{"ProjectsAndTheirApplicationsComeAndGoTogether", projectsAndApplications},
		{"AProjectThatComesLate", projectLate},
		{"TestScenario17_AProjectExcludedWhileTheAgentIsAway", projectExcluded},
		{"RepositoriesFollowTheirProjects", repositories},
		{"TestScenario26_RepositoriesDeletedWhileThePrincipalIsDown", repositoriesGone},
		{"RepositoriesOfNoProject", repositoriesOfNone},
		{"KeysForSignatures", keys},
		{"AnAgentThatObservesJoinsALiveSpoke", joins},
		{"ACopyDeletedOnItsSpoke", remade},
		{"AControllerOfTheHubsOwn", hybridHub},
		{"AnAgentThatLeavesAndComesBackFresh", registry},
		{"TestScenario20_AgentsBeforeTheHubIsKnown", halfSynced},
		{"TestScenario30_TheHubIsAway", hubAway},
	}
}

// disasters are stories of what is lost, wrong or killed.
func disasters() []story {
	return []story{
		{"DisasterEtcdRestored", restored},
		{"DisasterEtcdLost", rebuilt},
		{"DisasterEmptied", emptied},
		{"DisasterReapplied", reapplied},
		{"DisasterIdentityLost", identityLost},
		{"DisasterPrincipalMisled", misled},
		{"DisasterRightsRevoked", rightsRevoked},
		{"DisasterNamespaceDeleted", namespaceDeleted},
		{"DisasterApproved", approved},
		{"StrangersAndUnreachableClusters", refusals},
		{"KilledAndWiped", killedAndWiped},
		{"TestScenario13_DeletedWhileTheAgentLosesItsMemory", deletedAndForgotten},
		{"TestScenario24_AForcedDeletionWithoutItsAgent", forced},
		{"KilledAtFailpoints", failpoints},
	}
}

// TestReal plays the stories of every day, after which our programs have used all rights that
// they are given.
func TestReal(t *testing.T) {
	inTurn(t, 14)
	w := newWorld(t)
	played := w.play(t, stories())
	t.Run("RightsAreExact", func(t *testing.T) { w.audited(t, played == len(stories())) })
	t.Run("ProgramsEnd", func(t *testing.T) { w.end(t) })
}

// TestDisasters plays the others.
func TestDisasters(t *testing.T) {
	inTurn(t, 11)
	w := newWorld(t)
	w.play(t, disasters())
	t.Run("NothingIsRefused", func(t *testing.T) { w.audited(t, false) })
	t.Run("ProgramsEnd", func(t *testing.T) { w.end(t) })
}

// play plays stories, and returns how many were chosen. After each of them both sides must
// agree, and nothing may move for 10 s, and after the last for 30 s.
func (w *world) play(t *testing.T, all []story) (played int) {
	for i, s := range all {
		rest := 10 * time.Second
		if i == len(all)-1 {
			rest = 30 * time.Second
		}
		t.Run(s.name, func(t *testing.T) {
			played++
			t.Cleanup(w.heal)
			start := time.Now()
			s.play(t, w)
			told := time.Since(start)
			within(t, patience, w.inStep)
			w.silent(t, rest)
			t.Logf("played in %.1f s, and nothing differs in %d objects", told.Seconds(), w.verified(t))
		})
	}
	require.NotZero(t, played)
	return played
}
