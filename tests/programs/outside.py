"""Calls of third-party programs that are outside the scope of a mirror, and why; all others have to run."""

from __future__ import annotations

from fnmatch import fnmatchcase

ACCOUNTS = "Accounts: the operator manages users, groups, sign-in and keys (mirror-server keys)"
CERTIFICATES = "Certificates: the operator decides which devices may connect (mirror-server devices)"
FIRMWARE = "Firmware: images, manifests and campaigns; a mirror stores values"
BILLING = "Billing: nothing is charged"
METRICS = "Metrics: /metrics serves them to Prometheus"
BRANDING = "branding: colors and images of a portal that does not exist"
ENROLLMENT = "Enrollment: a device appears when it registers"
GROUPS = "Device groups: custom attributes and saved queries select devices"
DEVICES = "devices that a program creates or deletes: a device appears when it registers, and its reported values stay"
PORTAL = "The version of the service: this server has its web page at /"

REASONS = {
    ("AccountManagementA*",): ACCOUNTS,
    ("CertificatesA*", "BootstrapA*"): CERTIFICATES,
    ("UpdateA*",): FIRMWARE,
    ("BillingA*",): BILLING,
    ("EnrollmentA*", "foundation.DeviceEnrollment*", "DeviceEnrollment*Repository.*"): ENROLLMENT,
    ("ConnectAPI.list_metrics", "ConnectApi.listMetrics"): METRICS,
    ("DeviceDirectoryA??.add*evice", "DeviceDirectoryA??.delete*evice", "*onnector*.deleteEndpoint"): DEVICES,
    (
        "foundation.Device.create",
        "foundation.Device.delete",
        "DeviceRepository.create",
        "DeviceRepository.delete",
    ): DEVICES,
    ("foundation.DeviceGroup.*", "DeviceGroupRepository.*"): GROUPS,
    ("foundation.Device.*_group", "DeviceRepository.*Group"): GROUPS,
    ("foundation.Device.renew_certificate", "DeviceRepository.renewCertificate", "*Certificate*"): CERTIFICATES,
    ("*PreSharedKey*", "*ServerCredentials*", "foundation.VerificationResponse.*"): CERTIFICATES,
    ("foundation.*Campaign*", "*Campaign*Repository.*", "foundation.Firmware*", "Firmware*Repository.*"): FIRMWARE,
    ("foundation.*Theme*", "*Theme*Repository.*"): BRANDING,
    ("foundation.*Account.*", "foundation.ActiveSession.*", "foundation.Login*", "foundation.P[ao][sl][si]*"): ACCOUNTS,
    ("*.*ApiKey.*", "*.*User*", "AccountRepository.*", "*ApiKeyRepository.*", "*User*Repository.*"): ACCOUNTS,
    ("*IdentityProviderRepository.*", "*PolicyGroupRepository.*"): ACCOUNTS,
    ("connector.getConnectorVersion",): PORTAL,
}
"""Patterns of calls, with the reason why they are outside the scope. The manual names the reasons too."""


def reason(call: str) -> str | None:
    """Return why a call is outside the scope; ``None`` if it has to run."""
    for patterns, why in REASONS.items():
        if any(fnmatchcase(call, pattern) for pattern in patterns):
            return why
    return None
