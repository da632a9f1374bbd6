"""The calls that lie outside of what a device state mirror does, and why; what is not here has to run."""

from __future__ import annotations

from fnmatch import fnmatchcase

ACCOUNTS = "accounts: users, groups, sign-in and keys are the operator's (mirror-server keys)"
CERTIFICATES = "certificates: trust in devices is the operator's (mirror-server devices)"
FIRMWARE = "firmware: images, manifests and campaigns; a mirror holds values"
BILLING = "billing: nothing is charged"
METRICS = "metrics: /metrics tells them to Prometheus"
BRANDING = "branding: colours and images of a portal that is not here"
ENROLMENT = "enrolment: a device comes by registering"
GROUPS = "device groups: custom attributes and saved filters select devices"
DEVICES = "devices made and deleted: they come by registering, and what they reported stays"
PORTAL = "the service's own version: / is a page for people"

REASONS = {
    ("AccountManagementA*",): ACCOUNTS,
    ("CertificatesA*", "BootstrapA*"): CERTIFICATES,
    ("UpdateA*",): FIRMWARE,
    ("BillingA*",): BILLING,
    ("EnrollmentA*", "foundation.DeviceEnrollment*", "DeviceEnrollment*Repository.*"): ENROLMENT,
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
"""Patterns of calls, and the reason why those are out; the manual tells the reasons too."""


def reason(call: str) -> str | None:
    """Why a call is out; None for one that has to run."""
    for patterns, why in REASONS.items():
        if any(fnmatchcase(call, pattern) for pattern in patterns):
            return why
    return None
