import TestSupport
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
        let catalog = "Sources/\(guide.library)/\(guide.library).docc"
        try Documents.expect("\(catalog)/\(guide.name).md", toShowTheFilesOf: guide.folders, in: ["swift", "sql"])
    }
}
