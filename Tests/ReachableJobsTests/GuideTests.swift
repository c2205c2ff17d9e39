import Foundation
import Testing

/// The code of each guide is that of an example and of its tests.
struct GuideTests {
    /// A guide, and the folders whose files it shows.
    struct Guide: CustomTestStringConvertible {
        var name: String
        var library = "ReachableJobs"
        var folders: [String]
        var testDescription: String { name }
    }

    static let guides = [
        Guide(name: "OfflineFirstInTenMinutes", folders: ["Examples/Sources/notes", "Tests/ReachableJobsTests/Guide"]),
        Guide(
            name: "OneQueueManyMachines",
            folders: ["Examples/Sources/orders", "Examples/Sources/orders/SQL", "Examples/Tests/OrdersTests"]),
        Guide(
            name: "StartWhenTheNASIsAwake", library: "ReachableFleet",
            folders: ["Examples/Sources/nas-backup", "Examples/Tests/NASBackupTests"]),
        Guide(name: "AThousandKiosks", library: "ReachableFleet", folders: ["Examples/Sources/kiosks"]),
    ]

    @Test(arguments: guides) func guideShowsTheCompiledFiles(guide: Guide) throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let catalog = "Sources/\(guide.library)/\(guide.library).docc"
        let page = try Self.text(root.appendingPathComponent("\(catalog)/\(guide.name).md"))
        let shown = Set(["swift", "sql"].flatMap { Self.blocks(of: $0, in: page) })
        let files = try guide.folders.flatMap {
            try FileManager.default.contentsOfDirectory(at: root.appendingPathComponent($0), includingPropertiesForKeys: nil)
        }
        let compiled = try Dictionary(
            files.filter { ["swift", "sql"].contains($0.pathExtension) }.map { (try Self.text($0), $0.lastPathComponent) },
            uniquingKeysWith: { first, _ in first })
        for block in shown { #expect(compiled[block] != nil, "no file says this:\n\(block)") }
        for (text, name) in compiled { #expect(shown.contains(text), "\(name) is not in the guide as it is") }
    }

    /// Returns the code blocks of a language.
    private static func blocks(of language: String, in page: String) -> [String] {
        page.components(separatedBy: "```\(language)\n").dropFirst().map { $0.components(separatedBy: "```")[0] }
    }

    private static func text(_ file: URL) throws -> String { try String(contentsOf: file, encoding: .utf8) }
}
