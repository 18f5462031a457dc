//! Registration of the skills with a server that is being built.

use std::sync::Arc;

use wharf_model::CacheHint;
use wharf_server::RouterBuilder;

use super::{
    catalog::SkillCatalog,
    methods, resources,
    skill::{DynamicSkill, Skills},
    snapshot::SkillSnapshot,
    watch,
};
use crate::skills::format::SkillProblem;

/// Adds the extension with its methods, resources and prompts.
pub(super) fn add_to(skills: Skills, mut router: RouterBuilder) -> RouterBuilder {
    let Skills { sources, dynamic, cache } = skills;
    let (snapshot, problems) = SkillSnapshot::read(&sources);
    for problem in problems {
        router = report(problem, router);
    }
    let cache = cache.unwrap_or(CacheHint::public(0));
    for DynamicSkill { source, parts } in dynamic {
        let uri = sources.get(source).and_then(|source| source.dynamic_uri().ok());
        let skill = uri.and_then(|uri| snapshot.skills.get(uri.as_file()));
        if let Some(skill) = skill {
            router =
                parts(&skill.uri, &skill.info, cache).into_iter().fold(router, RouterBuilder::add);
        }
    }
    let catalog = Arc::new(SkillCatalog::new(sources, cache, snapshot));
    for skill in catalog.snapshot().skills.values() {
        let parts = resources::skill_parts(&catalog, skill);
        router = parts.into_iter().fold(router, RouterBuilder::add);
    }
    let router = router.add(resources::file_template(&catalog));
    let router = router.extension(methods::extension(&catalog));
    router.on_build(move |registry| {
        catalog.set_registry(&registry);
        watch::start(&catalog, &registry);
    })
}

/// Adds an error to the problems of the server, and logs a warning.
fn report(problem: SkillProblem, router: RouterBuilder) -> RouterBuilder {
    if !problem.is_error() {
        tracing::warn!("check skill: {problem}");
        return router;
    }
    let SkillProblem { file, line, text, .. } = problem;
    let place = file.unwrap_or_default();
    let place = line.map_or_else(|| place.clone(), |line| format!("{place}:{line}"));
    router.problem(format!("skill `{place}`"), text)
}
