import Foundation
import Testing

/// The snippets of the library's page are the files of the folder `Guide`, which run as tests.
struct GuideTests {
    @Test func pageShowsCompiledSnippets() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let root = folder.deletingLastPathComponent().deletingLastPathComponent()
        let catalog = root.appendingPathComponent("Sources/ReachabilityTesting/ReachabilityTesting.docc")
        let page = try String(contentsOf: catalog.appendingPathComponent("ReachabilityTesting.md"), encoding: .utf8)
        let shown = page.components(separatedBy: "```swift\n").dropFirst().map { $0.components(separatedBy: "```")[0] }
        let snippets = folder.appendingPathComponent("Guide")
        let compiled = try FileManager.default.contentsOfDirectory(at: snippets, includingPropertiesForKeys: nil)
            .map { try String(contentsOf: $0, encoding: .utf8) }
        #expect(shown.sorted() == compiled.sorted())
    }
}
