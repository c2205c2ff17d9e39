import TestSupport
import Testing

/// The snippets of the library's page are the files of the folder `Guide`, which run as tests.
struct GuideTests {
    @Test func pageShowsCompiledSnippets() throws {
        try Documents.expect(
            "Sources/ReachabilityTesting/ReachabilityTesting.docc/ReachabilityTesting.md",
            toShowTheFilesOf: ["Tests/ReachabilityTestingTests/Guide"])
    }
}
