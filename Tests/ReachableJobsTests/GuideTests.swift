import Foundation
import Testing

/// The code of the guide "Offline-first in ten minutes" is that of the example `notes` and of its test.
struct GuideTests {
    @Test func guideShowsTheCompiledFiles() throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let root = tests.deletingLastPathComponent().deletingLastPathComponent()
        let page = try Self.text(
            root.appendingPathComponent("Sources/ReachableJobs/ReachableJobs.docc/OfflineFirstInTenMinutes.md"))
        let shown = Set(page.components(separatedBy: "```swift\n").dropFirst().map { $0.components(separatedBy: "```")[0] })
        let folders = [tests.appendingPathComponent("Guide"), root.appendingPathComponent("Examples/Sources/notes")]
        let files = try folders.flatMap {
            try FileManager.default.contentsOfDirectory(at: $0, includingPropertiesForKeys: nil)
        }
        let compiled = try Dictionary(
            files.filter { $0.pathExtension == "swift" }.map { (try Self.text($0), $0.lastPathComponent) },
            uniquingKeysWith: { first, _ in first })
        for block in shown { #expect(compiled[block] != nil, "no file says this:\n\(block)") }
        for (text, name) in compiled { #expect(shown.contains(text), "\(name) is not in the guide as it is") }
    }

    private static func text(_ file: URL) throws -> String { try String(contentsOf: file, encoding: .utf8) }
}
